fivefold show profile megatron-core
