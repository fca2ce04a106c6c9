"""What to do: pure functions over the view. No I/O, no clock, no chance."""
