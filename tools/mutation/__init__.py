"""Changes of the package that tests should notice (tools/mutants.py)."""
