fivefold show schedule interleaved pp=2 vpp=2 microbatches=4
