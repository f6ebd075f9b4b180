fivefold explain llama-3.1-70b 16x8xh100-80gb-sxm tp=8,pp=2,zero=1,mbs=1 --seq 4096 --gbs 4M memory
