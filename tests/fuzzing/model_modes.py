"""What is run on a mutant of a model file: each function returns plain data, or raises a SizeupError.

An AssertionError means that two answers about the same file contradict each other.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import sizeup
from sizeup.render.data.report import to_dict
from sizeup.results.plan import Plan

_SECONDS = 0.2  # for each search
_MOST_PLACES = 300  # tensors whose places are compared pairwise
_TARGET = "stm32f746/tflm"


def analyze(path: Path) -> Any:
    """The report as JSON data."""
    return to_dict(sizeup.analyze(path))


def configuration(path: Path) -> Any:
    """The report of the model that a Hugging Face configuration describes, if that is soon built."""
    os.environ.setdefault("SIZEUP_HF_SECONDS", "4")
    return to_dict(sizeup.analyze(f"hf:{path}"))


def plan(path: Path) -> Any:
    """A memory plan: no two tensors that are live at once may share bytes."""
    found = sizeup.plan(path, time_limit=_SECONDS)
    assert found.lower_bound_bytes <= found.peak_bytes <= found.plan_bytes, "the bounds contradict each other"
    assert found.peak_bytes <= found.file_schedule_peak_bytes, "the schedule is worse than the model's own"
    _check_places(found)
    return found.to_dict()


def _check_places(found: Plan) -> None:
    places = [each for each in itertools.islice(found.planned_tensors(), _MOST_PLACES) if each.bytes]
    for one, other in itertools.combinations(places, 2):
        if one.buffer == other.buffer:
            continue
        is_live = one.first_step <= other.last_step and other.first_step <= one.last_step
        is_shared = one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes
        assert not (is_live and is_shared), f"{one.name} and {other.name} are live at once and share bytes"
    top = max((each.offset + each.bytes for each in places), default=0)
    assert top <= found.plan_bytes, "a tensor lies outside the arena"


def check(path: Path) -> Any:
    """Fit verdicts at limits that follow from a report of the same file, and one byte or MAC below them."""
    report = to_dict(sizeup.analyze(path))
    totals, memory = report["totals"], report["memory"]
    needs = {"macs": totals["macs"], "params": totals["params"], "arena": _arena(memory)}
    for name, need in needs.items():
        at, below = (_fits(path, name, limit) for limit in (need, need and need - 1))
        assert below is not True, f"{name} is said to be at most {need and need - 1}, a report says {need}"
        assert at is not False, f"{name} is said to be above {need}, which a report says it is"
        assert at is not True or totals["complete"], f"{name} is strictly within its limit and not complete"
    return sizeup.check(path, _TARGET, remedies=False).to_dict()


def _arena(memory: dict[str, Any]) -> int | None:
    """The arena of 32-bit firmware, which a limit of the arena is judged by."""
    needed: int | None = memory.get("arena_needed_bytes_32")
    return needed


def _fits(path: Path, name: str, limit: int | None) -> bool | None:
    """The strict verdict for one limit; None if undetermined, or if there is no such limit."""
    if not limit or limit < 0:
        return None
    limits: dict[str, Any] = {name: limit}
    return sizeup.check(path, strict=True, remedies=False, **limits).fits


def optimize(path: Path) -> Any:
    """The optimized file: it must load, and need no more memory."""
    out = path.with_name(f"out{path.suffix}")
    out.unlink(missing_ok=True)
    done = sizeup.optimize(path, out, verify=False, time_limit=_SECONDS)
    before, after = (to_dict(sizeup.analyze(each))["memory"] for each in (path, out))
    for key in ("peak_bytes", "arena_bytes"):
        if before.get(key) is not None:
            assert after.get(key) is not None, f"{key} of the written file is unknown"
            assert after[key] <= before[key], f"{key} rises from {before[key]} to {after[key]}"
    return done.to_dict()
