fivefold check llama-3.1-8b 2x8xh100-80gb-sxm tp=16,m=250 --seq 4096 --gbs 1M
