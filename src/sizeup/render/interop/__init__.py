"""Results for other viewers: Perfetto, Model Explorer, Netron."""
