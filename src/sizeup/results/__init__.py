"""Results: what was computed, frozen and complete. They know nothing of how they are shown."""
