"""When memory is in use, in which order to run, and where to put what."""

from sizeup.memory.check import check_offsets, check_order
from sizeup.memory.liveness import Buffers, lifetimes, tensor_bytes
from sizeup.memory.order import best_order
from sizeup.memory.ordering import Ordering, Problem, problem_of
from sizeup.memory.overview import Overview, overview
from sizeup.memory.usage import Held, Usage, usage

__all__ = [
    "Buffers",
    "Held",
    "Ordering",
    "Overview",
    "Problem",
    "Usage",
    "best_order",
    "check_offsets",
    "check_order",
    "lifetimes",
    "overview",
    "problem_of",
    "tensor_bytes",
    "usage",
]
