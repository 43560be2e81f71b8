"""Calibrations on public measurements: reading tables, fitting, evaluating on held-out networks, writing."""
