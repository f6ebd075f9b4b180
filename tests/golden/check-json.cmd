fivefold check gpt2 1x4xa100-40gb-sxm tp=2,zero=1 --gbs 64seq -o json
