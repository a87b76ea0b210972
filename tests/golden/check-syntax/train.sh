torchrun pretrain_gpt.py --num-layers "32
