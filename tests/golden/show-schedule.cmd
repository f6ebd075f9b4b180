fivefold show schedule 1f1b pp=4 microbatches=8
