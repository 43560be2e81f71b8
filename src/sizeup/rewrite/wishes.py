"""What a user asked for."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup.memory.schedule import Progress


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    """Which changes to try, and how long to search for each."""

    reorder: bool = True
    plan: bool = True
    cluster: int | None = None
    pack: bool = False
    verify: bool = True
    time_limit: float = 10.0
    progress: Progress | None = None
    overlap: bool = False  # outputs over dying inputs, as TFLite Micro's reference kernels bear it
