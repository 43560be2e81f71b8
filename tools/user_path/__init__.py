"""Latency estimates of the public API on real models, next to public measurements."""
