fivefold show rule FF0210
