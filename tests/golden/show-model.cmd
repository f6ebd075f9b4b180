fivefold show model deepseek-v3
