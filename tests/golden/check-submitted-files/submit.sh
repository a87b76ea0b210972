sbatch -p batch --nodes=${NODES} --export=OPTIONS job.sh
exit 0
