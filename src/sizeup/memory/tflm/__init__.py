"""TFLite Micro's own memory: what its planner and its interpreter take of a board's RAM."""

from sizeup.memory.tflm.arena import MicroArena, Scratch, arena
from sizeup.memory.tflm.head import Owner, Planned, planned
from sizeup.memory.tflm.optimised import most_scratch

__all__ = ["MicroArena", "Owner", "Planned", "Scratch", "arena", "most_scratch", "planned"]
