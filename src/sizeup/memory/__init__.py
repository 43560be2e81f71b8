"""Liveness, schedules and memory plans."""

from typing import TYPE_CHECKING

from sizeup.lazy import lazy_names
from sizeup.memory.usage import LiveBreakdown, LiveTensor, LiveTensors, Usage, live_breakdown, usage

if TYPE_CHECKING:
    from sizeup.memory.check import check_offsets, check_schedule
    from sizeup.memory.converted import folded, in_integers
    from sizeup.memory.cuda_usage import DeviceMemory, device_memory
    from sizeup.memory.in_place_bounds import ActivationBounds, activation_bounds
    from sizeup.memory.liveness import Buffers, buffer_liveness, initial_tensors, tensor_bytes
    from sizeup.memory.memory_plan import MemoryPlan, best_memory_plan
    from sizeup.memory.schedule import Progress, best_schedule
    from sizeup.memory.schedule_problem import Schedule, ScheduleProblem, problem_of

__all__ = [
    "ActivationBounds",
    "Buffers",
    "DeviceMemory",
    "LiveBreakdown",
    "LiveTensor",
    "LiveTensors",
    "MemoryPlan",
    "Progress",
    "Schedule",
    "ScheduleProblem",
    "Usage",
    "activation_bounds",
    "best_memory_plan",
    "best_schedule",
    "buffer_liveness",
    "check_offsets",
    "check_schedule",
    "device_memory",
    "folded",
    "in_integers",
    "initial_tensors",
    "live_breakdown",
    "problem_of",
    "tensor_bytes",
    "usage",
]

# Functions of the same name as their module are imported at once.
__getattr__ = lazy_names(
    __name__,
    {
        "check": (
            "check_offsets",
            "check_schedule",
        ),
        "converted": (
            "folded",
            "in_integers",
        ),
        "cuda_usage": (
            "DeviceMemory",
            "device_memory",
        ),
        "in_place_bounds": (
            "ActivationBounds",
            "activation_bounds",
        ),
        "liveness": (
            "Buffers",
            "buffer_liveness",
            "initial_tensors",
            "tensor_bytes",
        ),
        "memory_plan": (
            "MemoryPlan",
            "best_memory_plan",
        ),
        "schedule": (
            "Progress",
            "best_schedule",
        ),
        "schedule_problem": (
            "Schedule",
            "ScheduleProblem",
            "problem_of",
        ),
    },
)
