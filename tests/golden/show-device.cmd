fivefold show device gb200-186gb
