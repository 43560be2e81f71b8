"""When memory is in use, in which order to run, and where to put what."""

from sizeup.memory.check import check_offsets, check_order
from sizeup.memory.liveness import Buffers, given_tensors, lifetimes, tensor_bytes
from sizeup.memory.overview import Overview, as_shipped, overview, refusal_of
from sizeup.memory.placement import Placement, best_placement
from sizeup.memory.schedule import Progress, best_order
from sizeup.memory.schedule_problem import Ordering, Problem, problem_of
from sizeup.memory.usage import Live, LiveTensor, Shares, Usage, shares, usage

__all__ = [
    "Buffers",
    "Live",
    "LiveTensor",
    "Ordering",
    "Overview",
    "Placement",
    "Problem",
    "Progress",
    "Shares",
    "Usage",
    "as_shipped",
    "best_order",
    "best_placement",
    "check_offsets",
    "check_order",
    "given_tensors",
    "lifetimes",
    "overview",
    "problem_of",
    "refusal_of",
    "shares",
    "tensor_bytes",
    "usage",
]
