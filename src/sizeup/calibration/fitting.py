"""From measured networks and kernels to rates, and to how far estimates with them are off."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sizeup.cost import Cost
from sizeup.dtypes import DType
from sizeup.errors import SizeupError
from sizeup.latency import (
    Band,
    Executed,
    Form,
    Rate,
    Rates,
    band,
    executed,
    fit,
    kernels,
    seconds,
    stack,
    type_of,
    unseen_spread,
)
from sizeup.latency.work import Codes, Floats, Work, from_columns
from sizeup.runtimes import Kernel, Profile
from sizeup.runtimes.profiles import named_ops, op_of

LEAST = 5
"""Fewer measurements than this say nothing of a target."""
ENOUGH = 20
"""From so many on an error bar deserves its name."""
_MOST_FOLDS = 40
_FEWEST_BODIES = 3
_TYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int32", "int16", "int8", "int4")


@dataclass(frozen=True, slots=True)
class Judged:
    """A network that was estimated by a fit to the others."""

    name: str
    measured: float
    estimated: float

    @property
    def error(self) -> float:
        """How far off the estimate was: 0.1 is 10 % too long."""
        return self.estimated / self.measured - 1


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Rates, the range of nine in ten held-out errors, and every network that was held out."""

    rates: Rates
    band: Band
    judged: tuple[Judged, ...]
    measurements: int
    precisions: tuple[str, ...]
    held_out: str

    @property
    def error(self) -> float:
        """Mean absolute error over the networks that were held out."""
        return float(np.mean([abs(each.error) for each in self.judged]))


def fitted(points: Sequence[Point], cache: float = 0.0) -> Fitted:
    """Fit rates to measured networks or kernels; `cache` is what the device keeps near its cores, in bytes.

    Raises SizeupError where there are too few to learn anything from.
    """
    if len(points) < LEAST:
        raise SizeupError(
            f"{len(points)} measurement{'s' * (len(points) != 1)} cannot calibrate a target:"
            f" at least {LEAST}, better {ENOUGH} or more"
        )
    work, times = stack([each.work for each in points]), np.array([each.seconds for each in points])
    form = _form(points, cache)
    families = [each.family for each in points if not each.is_probe]
    estimated = np.full(len(points), np.nan)
    for fold in _folds(families):
        left_out = [i for i, each in enumerate(points) if not each.is_probe and each.family in fold]
        rest = [i for i in range(len(points)) if i not in set(left_out)]
        rates = _fit(points, rest, work, times, form)
        estimated[left_out] = seconds(rates, work.of(left_out))
    kept = np.flatnonzero(np.isfinite(estimated)).tolist()
    rates = _fit(points, list(range(len(points))), work, times, form)
    judged = tuple(Judged(points[i].name, float(times[i]), float(estimated[i])) for i in kept)
    spread = unseen_spread(rates, work) if rates.classes else 0.0
    return Fitted(
        rates,
        replace(band(estimated[kept], times[kept]), unseen=spread),
        judged,
        len(points),
        _precisions(work),
        "family of networks" if any(each.is_probe for each in points) else "network",
    )


def _form(points: Sequence[Point], cache: float) -> Form:
    """Probes tell classes apart, and how much short products lose; without them networks have to."""
    if any(each.is_probe for each in points):
        return Form(by_class=True, saturating=True, cache=cache)
    return Form()


def _folds(families: Sequence[str]) -> list[set[str]]:
    """Each family alone, or as many together as keep the number of fits bounded."""
    names = list(dict.fromkeys(families))
    count = min(len(names), _MOST_FOLDS)
    return [set(names[start::count]) for start in range(count)]


def _fit(points: Sequence[Point], chosen: list[int], work: Work, times: Floats, form: Form) -> Rates:
    rates = fit(work.of(chosen), times[chosen], form)
    if all(points[i].is_part for i in chosen):
        return _without_run(rates)
    bodies = [i for i in chosen if not points[i].is_probe]
    return _in_context(rates, work.of(bodies), times[bodies]) if len(bodies) < len(chosen) else rates


def _in_context(rates: Rates, work: Work, times: Floats) -> Rates:
    """Rates as fast as whole networks are, one factor a number type.

    Probes are at their best: their few layers stay in the cache, and nothing changes the order of numbers
    between them.
    """
    taken = kernels(rates, work).seconds
    ratio, classes = times / seconds(rates, work), dict(rates.classes)
    for kind in {type_of(name) for name in work.names}:
        is_kind = np.array([type_of(name) == kind for name in work.names])[work.kind]
        mostly = work.totals(taken * is_kind) > 0.5 * work.totals(taken)
        if mostly.sum() < _FEWEST_BODIES:
            continue
        factor = float(np.median(ratio[mostly]))
        for name, rate in rates.classes.items():
            if type_of(name) == kind:
                classes[name] = Rate(rate.mac * factor, rate.byte * factor, rate.launch * factor)
    return replace(rates, classes=classes)


def _without_run(rates: Rates) -> Rates:
    """Of kernels alone, what each of them adds is its launch."""

    def longer(rate: Rate) -> Rate:
        return replace(rate, launch=rate.launch + rates.run)

    classes = {name: longer(rate) for name, rate in rates.classes.items()}
    return replace(rates, pooled=longer(rates.pooled), classes=classes, run=0.0)


def _precisions(work: Work) -> tuple[str, ...]:
    """The number types in which products were measured; without products, in which anything was."""
    weights = work.macs if work.macs.any() else work.traffic
    there = {type_of(work.names[kind]) for kind in np.unique(work.kind[weights > 0]).tolist()}
    return tuple(each for each in _TYPES if each in there) or ("fp32",)


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
