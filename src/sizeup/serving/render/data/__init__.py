"""Results as plain data, and their schema."""
