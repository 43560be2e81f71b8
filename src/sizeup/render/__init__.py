"""Renderers: pure functions of results."""
