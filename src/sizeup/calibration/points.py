"""Measured networks: what a fit of a target is made from, however the times came about."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sizeup.cost import Cost
from sizeup.dtypes import DType
from sizeup.errors import SizeupError
from sizeup.latency import Executed, Work, executed
from sizeup.latency.work import Codes, from_columns
from sizeup.runtimes import Kernel, Profile
from sizeup.runtimes.attribution import named_ops, op_of

_LONGEST = 1e6  # seconds


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Kernels and the seconds that they took together; `family` is what is held out together."""

    name: str
    family: str
    work: Work
    seconds: float
    is_probe: bool = False  # made to tell classes apart: always in the fit, never judged
    is_part: bool = False  # kernels out of a network, without what a run adds


def point(
    name: str,
    cost: Cost,
    seconds: float,
    fuses: Sequence[str] | None,
    *,
    family: str | None = None,
    is_probe: bool = False,
    precision: DType | None = None,
) -> Point:
    """A measured network as a runtime that merges so much executes it."""
    if not math.isfinite(seconds) or not 0 < seconds < _LONGEST:
        raise SizeupError(f"{name}: {seconds!r} is no time that a network takes, in seconds")
    work = executed(cost, precision, fuses or ()).work
    if not work.count.any():
        raise SizeupError(f"{name}: nothing in it takes time, so there is nothing to learn from it")
    return Point(name, family or name, work, seconds, is_probe)


def parts(
    name: str, cost: Cost, profile: Profile, fuses: Sequence[str] | None, precision: DType | None = None
) -> list[Point]:
    """The kernels of a profile that are ours too, each a point; one for all where only their sum is known.

    Raises SizeupError where the profile seems to be of another model.
    """
    ran = executed(cost, precision, fuses or ())
    found = _by_name(cost, ran, profile.kernels) or _by_kind(cost, ran, profile.kernels)
    matched, whole = sum(each[1] for each in found), sum(each.seconds for each in profile.kernels)
    if not found or matched < 0.5 * whole:
        share = 100 * matched / whole if whole else 0
        raise SizeupError(
            f"the profile is not of {name}: {share:.0f} % of its time is in kernels that the model has;"
            " give the model that was profiled"
        )
    return [
        Point(f"{name}, {label}", f"{name}, {label}", _rows(ran.work, rows), seconds, is_part=True)
        for rows, seconds, label in found
        if seconds > 0
    ]


_Found = tuple[list[int], float, str]  # our kernels, their seconds together, a word for them


def _by_name(cost: Cost, ran: Executed, kernels: Sequence[Kernel]) -> list[_Found]:
    running = [index for index, kernel in enumerate(ran.kernel) if kernel >= 0 and ran.work.count[kernel]]
    known = named_ops(cost.graph, running)
    seconds: dict[int, float] = defaultdict(float)
    for each in kernels:
        op = op_of(known, each)
        if op is not None:
            seconds[int(ran.kernel[op])] += each.seconds
    return [([place], taken, f"kernel {place}") for place, taken in seconds.items()]


def _by_kind(cost: Cost, ran: Executed, kernels: Sequence[Kernel]) -> list[_Found]:
    """By the name of the operator's kind: the first of a kind is the first of it here too, run after run."""
    ours: dict[str, list[int]] = defaultdict(list)
    for kernel, main in enumerate(ran.main.tolist()):
        if ran.work.count[kernel]:
            ours[_plain(cost.graph.ops[main].source)].append(kernel)
    theirs: dict[str, list[Kernel]] = defaultdict(list)
    for each in kernels:
        theirs[_plain(each.kind)].append(each)
    found: list[_Found] = []
    for kind, rows in theirs.items():
        places = ours.get(kind, [])
        calls = sum(each.calls for each in rows)
        if not places or calls % len(places):
            continue
        runs = calls // len(places)
        if len(rows) == calls:
            for offset, place in enumerate(places):
                found.append(
                    ([place], min(each.seconds for each in rows[offset :: len(places)]), f"kernel {place}")
                )
        else:
            found.append((places, sum(each.seconds for each in rows) / runs, kind))
    return found


def _plain(kind: str) -> str:
    """`aten::conv2d`, `aten.conv2d.default` and `CONV_2D` without what differs between tools."""
    words = re.split(r"[.:]+", kind.lower())
    core = words[1] if words[0] == "aten" and len(words) > 1 else words[0]
    return core.replace("_", "")


def _rows(work: Work, rows: list[int]) -> Work:
    """Some kernels as a network of their own."""
    chosen: Codes = np.asarray(rows, np.int64)
    columns = {
        each: getattr(work, each)[chosen]
        for each in ("macs", "read", "written", "weights", "length", "columns", "rows", "count")
    }
    names = [work.names[kind] for kind in work.kind[chosen].tolist()]
    return from_columns(names, 1, np.zeros(len(rows), np.int64), **columns)
