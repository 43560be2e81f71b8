"""Counting conventions of other tools, applied to our graph to explain different numbers."""

from sizeup.conventions.convention import CONVENTIONS, Convention, ConventionCounts, convention

__all__ = ["CONVENTIONS", "Convention", "ConventionCounts", "convention"]
