"""Fits to public measurements: what they are made of, how they are judged, and how they are written down."""
