"""TFLite Micro's own memory: what its planner and its interpreter take of a board's RAM."""

from sizeup.memory.tflm.arena import MicroArena, Scratch, arena
from sizeup.memory.tflm.head import Owner, Planned, planned

__all__ = ["MicroArena", "Owner", "Planned", "Scratch", "arena", "planned"]
