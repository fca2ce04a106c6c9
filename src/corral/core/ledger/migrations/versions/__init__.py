"""One module per step, named by its revision."""
