"""What each runtime does with memory, operators, code and time: one folder per runtime.

A graph with its cost at a precision (`Needs`) and a target enter; memories, refusals, code size, latencies by
instructions, and outcomes of runs on the host leave. `Backend` has the questions, `backend_of` gives the
answers for a target. A folder is found by the name that the data of a runtime has as its `backend`.
"""

from sizeup.backends.backend import Backend, backend_of, fit_memory
from sizeup.backends.memory_need import EXTERNAL_RAM, MemoryFit, MemoryNeed, MemoryPart
from sizeup.backends.needs import Needs

__all__ = [
    "EXTERNAL_RAM",
    "Backend",
    "MemoryFit",
    "MemoryNeed",
    "MemoryPart",
    "Needs",
    "backend_of",
    "fit_memory",
]
