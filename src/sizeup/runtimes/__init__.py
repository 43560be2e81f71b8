"""Real runtimes, each in a process of its own: what they compute, the memory they say they took, the time."""

from sizeup.runtimes.process import RUNTIMES, Arena, Run, run
from sizeup.runtimes.profiles import Profile, read_profile
from sizeup.runtimes.source import RunSpec, check_room, random_samples, time_source
from sizeup.runtimes.timing import (
    ROUNDS,
    TIMED,
    TURN,
    Effort,
    Kernel,
    Timing,
    TurnProgress,
    Turns,
    time_model,
    time_series,
)

__all__ = [
    "ROUNDS",
    "RUNTIMES",
    "TIMED",
    "TURN",
    "Arena",
    "Effort",
    "Kernel",
    "Profile",
    "Run",
    "RunSpec",
    "Timing",
    "TurnProgress",
    "Turns",
    "check_room",
    "random_samples",
    "read_profile",
    "run",
    "time_model",
    "time_series",
    "time_source",
]
