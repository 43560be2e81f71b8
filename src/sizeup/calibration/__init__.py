"""Rates of a target from times that were measured on it."""
