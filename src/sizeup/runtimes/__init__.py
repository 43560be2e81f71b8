"""Real runtimes, each in a process of its own: what they compute, the memory they say they took, the time."""

from sizeup.runtimes.process import RUNTIMES, Arena, Run, run
from sizeup.runtimes.samples import check_room, random_samples
from sizeup.runtimes.source import Given, time_source
from sizeup.runtimes.stopwatch import Kernel
from sizeup.runtimes.timing import TIMED, Effort, Timing, time_model

__all__ = [
    "RUNTIMES",
    "TIMED",
    "Arena",
    "Effort",
    "Given",
    "Kernel",
    "Run",
    "Timing",
    "check_room",
    "random_samples",
    "run",
    "time_model",
    "time_source",
]
