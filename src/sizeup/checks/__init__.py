"""Whether a model fits: what it needs against what a target has, and budgets that a team sets."""

from sizeup.checks.needs import Needs
from sizeup.checks.room import Room, room
from sizeup.checks.spaces import Part, Space

__all__ = ["Needs", "Part", "Room", "Space", "room"]
