fivefold show devices
