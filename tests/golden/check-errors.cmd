fivefold check mixtral-8x7b 2x8xh100-80gb-sxm tp=6,ep=16,dp=4 --seq 4096 --gbs 1M
