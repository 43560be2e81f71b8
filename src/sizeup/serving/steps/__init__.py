"""Architectures in layouts enter; the work and the time of engine steps leave."""
