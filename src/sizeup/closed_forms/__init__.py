"""Closed forms: cost and latency of a model as functions of its symbolic dimensions."""
