"""Size up a neural network before you deploy it."""
