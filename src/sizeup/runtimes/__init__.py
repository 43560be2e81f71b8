"""Runs and times models in real runtimes, each in a worker."""

from typing import TYPE_CHECKING

from sizeup.lazy import lazy_names

if TYPE_CHECKING:
    from sizeup.runtimes.inference import Inference, infer_once
    from sizeup.runtimes.process import RUNTIMES, Arena, Run, run
    from sizeup.runtimes.profiles import Profile, read_profile
    from sizeup.runtimes.source import RunSpec, check_sample_memory, random_samples, time_source
    from sizeup.runtimes.timing import (
        ROUNDS,
        TIMED_RUNTIMES,
        TURN,
        Kernel,
        Timing,
        TimingOptions,
        TurnProgress,
        TurnTimes,
        time_model,
        time_series,
    )
    from sizeup.runtimes.vela import Compilation, CpuOperator, NpuOperator, VelaOptions, compile_for_npu

__all__ = [
    "ROUNDS",
    "RUNTIMES",
    "TIMED_RUNTIMES",
    "TURN",
    "Arena",
    "Compilation",
    "CpuOperator",
    "Inference",
    "Kernel",
    "NpuOperator",
    "Profile",
    "Run",
    "RunSpec",
    "Timing",
    "TimingOptions",
    "TurnProgress",
    "TurnTimes",
    "VelaOptions",
    "check_sample_memory",
    "compile_for_npu",
    "infer_once",
    "random_samples",
    "read_profile",
    "run",
    "time_model",
    "time_series",
    "time_source",
]

# Modules of the names; loaded on first use, so that a worker loads only what it runs.
__getattr__ = lazy_names(
    __name__,
    {
        "inference": ("Inference", "infer_once"),
        "process": ("RUNTIMES", "Arena", "Run", "run"),
        "profiles": ("Profile", "read_profile"),
        "source": ("RunSpec", "check_sample_memory", "random_samples", "time_source"),
        "timing": (
            *("ROUNDS", "TIMED_RUNTIMES", "TURN", "Kernel", "Timing", "TimingOptions"),
            *("TurnProgress", "TurnTimes", "time_model", "time_series"),
        ),
        "vela": ("Compilation", "CpuOperator", "NpuOperator", "VelaOptions", "compile_for_npu"),
    },
)
