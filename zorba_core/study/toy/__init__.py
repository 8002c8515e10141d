"""The 3x3 toy example: all its matrices, and what is true of them."""
