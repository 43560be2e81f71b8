"""What torch's CPU allocator held in a real run: the measurement of the benchmark, for tests."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from typing import Any

from torch import nn

from conftest import ROOT

_MEASURE: Callable[..., Any] = runpy.run_path(str(ROOT / "benchmarks" / "torch_peak.py"))["measure"]


def allocated_peak(module: nn.Module, *inputs: Any) -> int:
    """The most bytes that a run held at once, its inputs included, its weights not."""
    module(*inputs)  # what a model sets up once is not part of a run
    return int(_MEASURE(module, inputs).peak_bytes)
