fivefold explain FF0210
