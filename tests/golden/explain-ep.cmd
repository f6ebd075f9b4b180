fivefold explain mixtral-8x7b 8x8xh100-80gb-sxm tp=4,pp=2,ep=8,zero=1,mbs=1 --seq 4096 --gbs 1M ep
