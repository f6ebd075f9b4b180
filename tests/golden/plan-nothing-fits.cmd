fivefold plan llama-3.1-405b 1x8xh100-80gb-sxm --seq 4096 --gbs 4M
