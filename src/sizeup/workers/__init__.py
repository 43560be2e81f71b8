"""Subprocesses for code that may crash, hang or exhaust memory: a supervisor and its worker."""

from sizeup.workers.supervisor import CRASHED, OUT_OF_MEMORY, RAISED, TIMED_OUT, Supervisor

__all__ = ["CRASHED", "OUT_OF_MEMORY", "RAISED", "TIMED_OUT", "Supervisor"]
