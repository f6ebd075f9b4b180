fivefold plan llama-3.1-70b 16x8xh100-80gb-sxm --seq 4096 --gbs 4M
