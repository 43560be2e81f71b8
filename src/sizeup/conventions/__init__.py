"""How other tools count: their numbers from our graph, so that a difference has a reason."""

from sizeup.conventions.convention import CONVENTIONS, Convention, Counted, convention

__all__ = ["CONVENTIONS", "Convention", "Counted", "convention"]
