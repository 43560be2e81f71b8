"""Liveness, schedules and memory plans."""

from sizeup.memory.check import check_offsets, check_schedule
from sizeup.memory.converted import folded, in_integers
from sizeup.memory.cuda_usage import DeviceMemory, device_memory
from sizeup.memory.in_place_bounds import ActivationBounds, activation_bounds
from sizeup.memory.liveness import Buffers, buffer_liveness, initial_tensors, tensor_bytes
from sizeup.memory.memory_plan import MemoryPlan, best_memory_plan
from sizeup.memory.overview import Overview, overview, tflm_arena, unsupported_reason
from sizeup.memory.schedule import Progress, best_schedule
from sizeup.memory.schedule_problem import Schedule, ScheduleProblem, problem_of
from sizeup.memory.usage import LiveBreakdown, LiveTensor, LiveTensors, Usage, live_breakdown, usage

__all__ = [
    "ActivationBounds",
    "Buffers",
    "DeviceMemory",
    "LiveBreakdown",
    "LiveTensor",
    "LiveTensors",
    "MemoryPlan",
    "Overview",
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
    "overview",
    "problem_of",
    "tensor_bytes",
    "tflm_arena",
    "unsupported_reason",
    "usage",
]
