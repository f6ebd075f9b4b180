fivefold check llama-3.1-70b 16x8xh100-80gb-sxm tp=16,zero=0,dp=4,m=1 --ledger lesson --seq 4096 --gbs 4M -q
