fivefold show models
