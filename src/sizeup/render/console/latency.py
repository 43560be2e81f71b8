"""The lines of a latency estimate: latency, basis, throughput, limits and energy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sizeup import units
from sizeup.render.vocabulary import NOT_APPLICABLE, cores_text, standing_text, verified_text
from sizeup.results.rows import BOUND_LABELS

if TYPE_CHECKING:
    from sizeup.results.parts import (
        Bound,
        EnergyEstimate,
        Estimate,
        LimiterShare,
        PipelinedThroughput,
        Throughput,
    )
    from sizeup.results.report import LatencyDetails

_BEYOND_PEAK = 1.05  # share of a device's peak from which a caveat is printed


def latency_lines(details: LatencyDetails) -> Iterator[tuple[str, str]]:
    """Yields labels and texts: latency, basis, throughput, limits, energy and caveats."""
    estimate = details.estimate
    location = "" if estimate.target is None else f" on {estimate.target.name}"
    suffix = "" if estimate.is_applicable else f"; {NOT_APPLICABLE}"
    yield "latency", f"{latency_text(estimate)}{location}{_threads(estimate)}{suffix}"
    yield "basis", f"{estimate.basis}: {estimate.provenance}"
    if estimate.standing is not None:
        standing = estimate.standing
        yield "standing", f"{standing_text(standing)}; {verified_text(standing.verified)}"
    if estimate.pipelined is not None:
        yield "pipelined", pipelined_text(estimate.pipelined)
    hardware = details.throughput
    if hardware is not None:
        yield "throughput", throughput_text(hardware)
    if (
        hardware is not None
        and max(hardware.compute_share or 0.0, hardware.bandwidth_share or 0.0) > _BEYOND_PEAK
    ):
        yield "caveat", "exceeds the data sheet: data in a cache, or a calibration on smaller networks"
    if details.bound_by is not None:
        yield "bound by", _limits(details.bound_by)
    if details.flops_per_byte:
        ratios = details.flops_per_byte.items()
        listed = ", ".join(f"{ratio:,.3g} FLOP/B at {name}" for name, ratio in ratios)
        yield "ops:byte", f"{listed} (data sheet, 2 FLOPs per MAC)"
    if details.energy is not None:
        yield "energy", _energy(details.energy)
    # The first note of an estimate that is not applicable is the fit verdict.
    yield from (("caveat", note) for note in estimate.notes[0 if estimate.is_applicable else 1 :])


def _threads(estimate: Estimate) -> str:
    """Returns the threads of the measurements, or the cores that the runtime uses."""
    if estimate.target is None or not estimate.target.is_cpu:
        return ""
    if estimate.calibration is not None:
        threads = estimate.calibration.threads
        return f", {threads} thread{'s' * (threads != 1)}" if threads else ""
    return "" if estimate.basis == "coefficients" else cores_text(estimate.target)


def latency_text(estimate: Estimate) -> str:
    """Returns the latency and its prediction interval: `12.3 ms (90 % interval 11-14.2 ms)`."""
    text = units.duration(estimate.seconds)
    if estimate.low is None:
        return f"at least {text}" if estimate.is_lower_bound else text
    if estimate.high is None:
        return f"at least {units.duration(estimate.low)}, {text} expected"
    return f"{text} ({interval_text(estimate.low, estimate.high, estimate.level)})"


def pipelined_text(pipelined: PipelinedThroughput) -> str:
    """Returns the throughput of a pipeline: `310 inferences/s (90 % interval 69-540), several at once`."""
    rate, low, high = (
        f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
        for value in (pipelined.inferences_per_second, pipelined.low, pipelined.high)
    )
    return f"{rate} inferences/s (90 % interval {low}-{high}), several at once; {pipelined.provenance}"


def interval_text(low: float, high: float, level: float = 0.9) -> str:
    """Returns a prediction interval of seconds, its unit once if equal: `90 % interval 11-14.2 ms`."""
    first, last = units.duration(low), units.duration(high)
    unit = f" {last.rpartition(' ')[2]}"
    return f"{100 * level:.0f} % interval {first.removesuffix(unit)}-{last}"


def throughput_text(hardware: Throughput) -> str:
    """Returns the rates and their shares of the device's peak: `54 GMAC/s (71 % of the peak), ...`."""
    parts = [f"{units.count(hardware.macs_per_second)}MAC/s".replace("  ", " ")] if hardware.macs else []
    if parts and hardware.compute_share is not None:
        parts[-1] += f" ({100 * hardware.compute_share:.0f} % of the peak)"
    parts.append(f"{units.size(hardware.bytes_per_second)}/s")
    if hardware.bandwidth_share is not None:
        parts[-1] += f" ({100 * hardware.bandwidth_share:.0f} % of the bandwidth)"
    if hardware.overhead_share is not None:
        parts.append(f"{100 * hardware.overhead_share:.0f} % of the time is overhead")
    return ", ".join(parts)


def _limits(limits: Mapping[Bound, LimiterShare]) -> str:
    """Returns what bounds the operators: `57 of 69 operators memory-bound, 91 % of the time; ...`."""
    count = sum(limited.ops for limited in limits.values())
    ranked = sorted((item for item in limits.items() if item[1].ops), key=lambda item: -item[1].seconds)
    first, *others = [
        (limited, f"{BOUND_LABELS[bound]}-bound, {100 * limited.share:.0f} %") for bound, limited in ranked
    ]
    text = f"{first[0].ops:,} of {count:,} operator{'s' * (count != 1)} {first[1]} of the time"
    return "; ".join([text, *(f"{limited.ops:,} {words}" for limited, words in others)])


def _energy(spent: EnergyEstimate) -> str:
    text = units.joules(spent.joules)
    if spent.low is not None and spent.high is None:
        text += " without operators of unknown latency"
    elif spent.low is not None and spent.high is not None:
        low, high = units.joules(spent.low), units.joules(spent.high)
        expected = f"at most {high}, {text} at the expected latency"
        text = expected if spent.is_upper_bound else f"{text} (90 % interval {low} to {high})"
    return f"{text}, from {'the' if spent.basis.endswith('power') else 'picojoules'} {spent.basis}"
