fivefold plan params=70e9,layers=80,hidden=8192,heads=64 '16x8x(mem=80GiB)' --seq 4096 --gbs 4M --ledger lesson --top all
