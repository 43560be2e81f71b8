"""Results as text for terminals."""
