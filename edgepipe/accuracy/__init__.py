"""What int8 costs a network: its layers and its answers, in float and in integers."""
