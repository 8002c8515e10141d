"""Models larger than the memory: weights stay in files, and one block after another visits the data."""
