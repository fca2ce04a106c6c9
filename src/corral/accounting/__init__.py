"""What was used: GPU-seconds by whom, and what stood behind them."""
