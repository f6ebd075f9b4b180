fivefold show clusters
