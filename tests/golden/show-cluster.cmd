fivefold show cluster 16x8xh100-80gb-sxm
