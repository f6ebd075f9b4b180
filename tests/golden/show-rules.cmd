fivefold show rules
