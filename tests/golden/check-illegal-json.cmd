fivefold check llama-3.1-8b 1x8xh100-80gb-sxm tp=16 --seq 4096 --gbs 1M -o json
