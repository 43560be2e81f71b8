"""The public functions, one module per command: each takes a model and returns a frozen result."""
