fivefold plan mixtral-8x7b 4x8xa100-80gb-sxm --seq 4096 --gbs 1M --where 'ep>1,zero=1' --near 2% --top 3 -q
