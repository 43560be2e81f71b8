"""Real runtimes, each run in a process of its own: what they compute, and what memory they say they took."""

from sizeup.runtimes.process import RUNTIMES, Arena, Run, run
from sizeup.runtimes.samples import random_samples

__all__ = ["RUNTIMES", "Arena", "Run", "random_samples", "run"]
