"""Measured times of a configuration on a server, by which its estimates are corrected.

A configuration is a model at its precisions in a layout: measurements of other models or layouts do not
improve an estimate (benchmarks/serving_anchors.py).
"""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace

from sizeup.errors import SizeupError
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.steps.factors import MOST_LOADS, MOST_RATIO, Factors, factor
from sizeup.serving.steps.rates import Rates
from sizeup.serving.steps.step import Server
from sizeup.serving.times.closed_form import times
from sizeup.targets import current_catalog
from sizeup.targets.anchors import Anchor

_LEAST_SHARE = 0.5  # of the time at data-sheet rates


def configuration_digest(architecture: Architecture, layout: Layout, kv: str) -> str:
    """A digest of a model, its precisions and its layout; the name of its file does not matter."""
    model = architecture.model_type, architecture.hidden_size, architecture.vocabulary
    sizes = len(architecture.layers), architecture.decoder_parameters, architecture.stored_bytes
    return hashlib.sha256(repr((model, sizes, layout, kv)).encode()).hexdigest()[:16]


def with_measurements(
    server: Server, architecture: Architecture, layout: Layout, kv: str, target: str, ideal: Rates
) -> Server:
    """The server, corrected by the user's measurements of this configuration on `device/engine`.

    `ideal` are rates of the data sheet. Raises SizeupError for measurements that are not of this server.
    """
    anchors = [each for each in current_catalog().anchors() if each.target == target]
    if not anchors:
        return server
    digest = configuration_digest(architecture, layout, kv)
    anchors = [each for each in anchors if each.configuration == digest]
    if not anchors:
        return server
    if len(anchors) > MOST_LOADS:
        raise SizeupError(
            f"{target}: {len(anchors):,} measurements of one configuration; keep {MOST_LOADS:,}"
        )
    least = replace(server, rates=ideal)
    for each in anchors:
        check_measurement(server, least, (each.requests, each.input, each.output), each.tpot, each.benchmark)
    return replace(server, factors=factors_of(server, anchors))


def check_measurement(
    server: Server, ideal: Server, load: tuple[int, int, int], tpot: float, name: str
) -> None:
    """Raise SizeupError for a TPOT that is far from the estimate, or that the data sheet rules out.

    Half of the time at data-sheet rates allows for experts that are chosen less evenly than assumed.
    """
    requests, input, output = load
    expected, least = (float(times(each, requests, input, output, requests).tpot) for each in (server, ideal))
    if max(tpot / expected, expected / tpot) > MOST_RATIO:
        reason = f"differs from the estimate by more than a factor of {MOST_RATIO:g}"
    elif tpot < _LEAST_SHARE * least:
        reason = f"is below {_LEAST_SHARE:g} of that at data-sheet rates, {1e3 * least:.3g} ms"
    else:
        return
    raise SizeupError(
        f"{name}: TPOT {1e3 * tpot:.3g} ms {reason};"
        " model, layout, precision or device are not those of the server"
    )


def factors_of(server: Server, anchors: list[Anchor]) -> Factors:
    """Factors between measurements and what the server's rates give, of a server without factors."""
    loads = [(each.requests, each.input, each.output) for each in anchors]
    requests, inputs, outputs = zip(*loads, strict=True)
    estimates = times(server, requests, inputs, outputs, requests)
    first = [
        (load, each.ttft, float(seconds))
        for load, each, seconds in zip(loads, anchors, estimates.ttft, strict=True)
        if each.ttft is not None
    ]
    files = tuple(dict.fromkeys(each.benchmark for each in anchors))
    tpot = factor(loads, [each.tpot for each in anchors], estimates.tpot.tolist())
    ttft = factor(*(list(each) for each in zip(*first, strict=True))) if first else factor((), (), ())
    return Factors(tpot, ttft, len(anchors), files)


def slowed(server: Server, input: float, output: float, requests: float) -> Server:
    """A server whose steps take as much longer as TPOT was measured to at a load, for simulations.

    `requests` are those that run at once.
    """
    if server.factors is None:
        return server
    scale = float(server.factors.tpot.at(requests, input, output))
    names = [field.name for field in fields(Rates) if field.name.endswith("_seconds")]
    rates = replace(server.rates, **{name: scale * getattr(server.rates, name) for name in names})
    return replace(
        server,
        bandwidth=server.bandwidth / scale,
        arithmetic={name: rate / scale for name, rate in server.arithmetic.items()},
        link=None if server.link is None else server.link / scale,
        network=None if server.network is None else server.network / scale,
        rates=rates,
    )
