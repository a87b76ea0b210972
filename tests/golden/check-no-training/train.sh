echo hello
python prepare.py --in x
