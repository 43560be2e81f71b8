"""The words and the data of an estimate: how long, how sure, on what basis, and what the device does then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sizeup import units
from sizeup.results.rows import LIMITS

if TYPE_CHECKING:
    from sizeup.results.parts import Bound, Estimate, Hardware, Limited, Spent
    from sizeup.results.report import LatencyDetails

_BEYOND = 1.05  # of what a device can do at most


def lines(details: LatencyDetails) -> Iterator[tuple[str, str]]:
    """Labels and texts: the time first, then its basis, the rates that it means, and energy."""
    found = details.estimate
    where = "" if found.target is None else f" on {found.target.name}"
    yield "latency", f"{spoken(found)}{where}{_threads(found)}"
    yield "basis", f"{found.basis}: {found.origin}"
    rates = details.hardware
    if rates is not None:
        yield "attained", attained(rates)
    if rates is not None and max(rates.compute_share or 0.0, rates.bandwidth_share or 0.0) > _BEYOND:
        yield "but", "that is more than the data sheet allows: a cache, or a calibration on smaller networks"
    if details.bound_by is not None:
        yield "bound by", _limits(details.bound_by)
    if details.flops_per_byte:
        ratios = details.flops_per_byte.items()
        listed = ", ".join(f"{ratio:,.3g} FLOP/B at {name}" for name, ratio in ratios)
        yield "ops:byte", f"{listed} (data sheet, 2 FLOPs per MAC)"
    if details.energy is not None:
        yield "energy", _energy(details.energy)
    yield from (("but", note) for note in found.notes)


def _threads(found: Estimate) -> str:
    """On how much of a processor: what was measured, or all that the data sheet counts."""
    if found.target is None or found.target.units[0].kind != "cpu":
        return ""
    if found.fit is not None:
        threads = found.fit.threads
        return f", {threads} thread{'s' * (threads != 1)}" if threads else ""
    cores = [unit.cores for unit in found.target.units]
    count = sum(each or 0 for each in cores)
    return f", all {count} cores" if found.basis == "roofline" and all(cores) and count > 1 else ""


def spoken(found: Estimate) -> str:
    """The time and its range: `12.3 ms (11 to 14.2 ms in nine of ten)`."""
    text = units.duration(found.seconds)
    if found.low is None:
        return f"at least {text}" if found.basis == "roofline" else text
    if found.high is None:
        return f"at least {units.duration(found.low)}, {text} expected"
    return f"{text} ({units.duration(found.low)} to {units.duration(found.high)} in nine of ten)"


def attained(found: Hardware) -> str:
    """The rates and their shares of the device's: `54 GMAC/s (71 % of the peak), ...`."""
    parts = [f"{units.count(found.macs_per_second)}MAC/s".replace("  ", " ")] if found.macs else []
    if parts and found.compute_share is not None:
        parts[-1] += f" ({100 * found.compute_share:.0f} % of the peak)"
    parts.append(f"{units.size(found.bytes_per_second)}/s")
    if found.bandwidth_share is not None:
        parts[-1] += f" ({100 * found.bandwidth_share:.0f} % of the bandwidth)"
    if found.overhead_share is not None:
        parts.append(f"{100 * found.overhead_share:.0f} % of the time is overhead")
    return ", ".join(parts)


def _limits(limits: Mapping[Bound, Limited]) -> str:
    """The most limiting first: `57 of 69 operators memory-bound, 91 % of the time; 12 compute-bound, 9 %`."""
    count = sum(each.ops for each in limits.values())
    ranked = sorted((item for item in limits.items() if item[1].ops), key=lambda item: -item[1].seconds)
    first, *others = [(each, f"{LIMITS[bound]}-bound, {100 * each.share:.0f} %") for bound, each in ranked]
    text = f"{first[0].ops:,} of {count:,} operator{'s' * (count != 1)} {first[1]} of the time"
    return "; ".join([text, *(f"{each.ops:,} {words}" for each, words in others)])


def _energy(spent: Spent) -> str:
    text = f"{'at most ' if spent.at_most else ''}{units.joules(spent.joules)}"
    if spent.low is not None and spent.high is not None:
        low, high = units.joules(spent.low), units.joules(spent.high)
        expected = f"at most {high}, {units.joules(spent.joules)} at the expected time"
        text = expected if spent.at_most else f"{text} ({low} to {high})"
    return f"{text}, from {'the' if spent.basis.endswith('power') else 'picojoules'} {spent.basis}"
