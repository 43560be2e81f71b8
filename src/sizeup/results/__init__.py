"""Results of analyses: frozen, complete, and independent of how they are rendered."""
