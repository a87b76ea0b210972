#!/bin/bash
#SBATCH --exclusive --ntasks-per-node=8 --nodes=1
touch executed
COMMAND="python -u pretrain_gpt.py ${OPTIONS}"
srun -l sh -c "${COMMAND}"
