fivefold show profiles
