"""Remedies for a language model that does not fit, each carried out and checked, least change first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from sizeup.checks.remedy_case import Change, Remedy
from sizeup.errors import SizeupError
from sizeup.serving.checks.check import ServingCheck
from sizeup.serving.memory.deployment import cache_precision
from sizeup.serving.memory.layout_costs import evaluate
from sizeup.serving.memory.layouts import Layout, enumerate_layouts
from sizeup.serving.models.cache import cache_bits
from sizeup.targets.clusters import Cluster, shipped_clusters
from sizeup.units import plural

_CANDIDATES = 8  # layouts that are tried, those of least memory first
_MOST_DEVICES = 1024  # that a remedy proposes
_MOST_IN_NODE = 16  # of a device without a shipped cluster
_CACHE_NOTE = "a cache of fewer bits changes results: measure the accuracy"
_WEIGHTS_NOTE = "changes the model: quantize it and measure the accuracy"
# Precisions of weights and cache together, if neither is enough.
_BOTH = (("fp8", "fp8"), ("int4", "fp8"))


class _Candidate(NamedTuple):
    """A changed check of which all limits are met."""

    check: ServingCheck
    description: str
    notes: tuple[str, ...] = ()


def serving_remedies(check: ServingCheck) -> tuple[Remedy, ...]:
    """Changes with which all sequences fit and times are within their limits; each was carried out."""
    return tuple(_remedy(check, each) for each in _candidates(check))


def remedy_options(check: ServingCheck) -> tuple[str, ...]:
    """The options that each remedy changes, e.g. `--layout tp4,dp2`."""
    before = set(_options(check))
    return tuple(
        " ".join(option for option in _options(each.check) if option not in before)
        for each in _candidates(check)
    )


def _candidates(check: ServingCheck) -> Iterator[_Candidate]:
    for step in (_other_layout, _fewer_sequences, _shorter_prompts, _precisions, _more_devices):
        yield from step(check)


def _other_layout(check: ServingCheck) -> Iterator[_Candidate]:
    changed = _in_some_layout(check)
    if changed is not None:
        yield from _if_it_fits(changed, f"layout {changed.layout}")


def _fewer_sequences(check: ServingCheck) -> Iterator[_Candidate]:
    most = min(check.deployment.sequences_range()[0], check.concurrency)
    least = 0
    while least < most:  # the most sequences of which all limits are met
        middle = (least + most + 1) // 2
        if replace(check, concurrency=middle).fits is True:
            least = middle
        else:
            most = middle - 1
    if 1 <= least < check.concurrency:
        changed = replace(check, concurrency=least)
        yield from _if_it_fits(changed, f"at most {plural(least, 'concurrent sequence')}")


def _shorter_prompts(check: ServingCheck) -> Iterator[_Candidate]:
    deployment = check.deployment
    each = -(-check.concurrency // deployment.servers)
    context = min(gpu.capacity_low.max_context(each) for gpu in deployment.gpus)
    tokens = context - check.output
    if 1 <= tokens < check.input:
        yield from _if_it_fits(replace(check, input=tokens), f"prompts of at most {plural(tokens, 'token')}")


def _precisions(check: ServingCheck) -> Iterator[_Candidate]:
    """The cache at fp8, weights at fp8 and int4, or both, as far as they are smaller."""
    candidates: list[_Candidate] = []
    if cache_bits(check.deployment.kv) > cache_bits("fp8"):
        candidates += _if_it_fits(replace(check, kv="fp8"), "key-value cache at fp8", (_CACHE_NOTE,))
    for weights in ("fp8", "int4"):
        changed = _with_weights(check, weights)
        if changed is not None:
            candidates += _if_it_fits(changed, f"weights at {weights}", (_WEIGHTS_NOTE,))
    if candidates:
        yield from candidates
        return
    for weights, kv in _BOTH:
        changed = _with_weights(replace(check, kv=kv), weights)
        if changed is not None and cache_bits(check.deployment.kv) > cache_bits(kv):
            text = f"weights at {weights} and key-value cache at {kv}"
            candidate = next(_if_it_fits(changed, text, (_WEIGHTS_NOTE, _CACHE_NOTE)), None)
            if candidate is not None:
                yield candidate
                return


def _with_weights(check: ServingCheck, weights: str) -> ServingCheck | None:
    """The check at another precision of weights; None if it needs no fewer bytes."""
    changed = replace(check, weights=weights)
    try:
        is_smaller = changed.architecture.stored_bytes < check.architecture.stored_bytes
    except SizeupError:  # a GGUF file has its precision
        return None
    return changed if is_smaller else None


def _more_devices(check: ServingCheck) -> Iterator[_Candidate]:
    """The smallest number of devices on which some layout fits."""
    machines = check.deployment.cluster
    for text in _larger_clusters(machines, _is_judged_on_several_nodes(check)):
        larger = replace(check, target=f"{text}/{check.deployment.engine.name}", layout=None)
        try:
            is_default = larger.fits is True
            changed = larger if is_default else _in_some_layout(larger)
        except SizeupError:  # no layout divides the model over all devices
            continue
        if changed is not None:
            layout = changed.deployment.layout
            if check.layout is not None:  # which the option would keep
                changed = replace(changed, layout=_text(layout))
            number = changed.deployment.cluster.devices
            yield from _if_it_fits(changed, f"{number:,} x {machines.device.name} as {layout}")
            return


def _is_judged_on_several_nodes(check: ServingCheck) -> bool:
    """Whether a verdict there can be yes: times on several nodes have no interval, but expected times."""
    if check.ttft is None and check.tpot is None:
        return True
    return check.expected and check.times is not None and check.times.calibration is not None


def _larger_clusters(machines: Cluster, has_several_nodes: bool) -> Iterator[str]:
    """Targets of more devices of the same kind: one node first, then whole nodes."""
    name = machines.device.name
    like = next((known for known in shipped_clusters().values() if known.device.name == name), None)
    node = max(machines.devices_per_node, _MOST_IN_NODE if like is None else like.devices_per_node)
    if machines.nodes == 1:
        yield from (f"{count}x{name}" for count in range(machines.devices + 1, node + 1))
    else:
        node = machines.devices_per_node
    if not has_several_nodes:
        return
    yield from (f"{nodes}x{node}x{name}" for nodes in range(machines.nodes + 1, _MOST_DEVICES // node + 1))


def _in_some_layout(check: ServingCheck) -> ServingCheck | None:
    """The check in a layout that fits, of those with the least memory; None if none does."""
    architecture, machines = check.architecture, check.machines
    layouts = enumerate_layouts(architecture, machines)
    if not len(layouts):
        return None
    costs = evaluate(
        architecture, machines, layouts,
        sequences=(check.concurrency,), context=check.input + check.output,
        kv=cache_precision(architecture, check.kv),
    )  # fmt: skip
    for row in costs.order("memory", most_bytes=machines.memory_bytes)[:_CANDIDATES]:
        changed = replace(check, layout=_text(costs.layouts[int(row)]))
        if changed.fits is True:
            return changed
    return None


def _text(layout: Layout) -> str:
    """A layout as an option: replicas follow from the number of devices."""
    return str(replace(layout, replicas=1))


def _if_it_fits(check: ServingCheck, description: str, notes: tuple[str, ...] = ()) -> Iterator[_Candidate]:
    """The candidate, if all limits are met."""
    if check.fits is True:
        yield _Candidate(check, description, notes)


def _remedy(check: ServingCheck, candidate: _Candidate) -> Remedy:
    changes = tuple(
        Change(after.name, after.unit, before.need, after.need, True)
        for before, after in zip(check.limits, candidate.check.limits, strict=True)
        if before.fits is not True and before.need is not None and after.need is not None
    )
    options = " ".join(_options(candidate.check))
    command = f"sizeup llm {shlex.quote(candidate.check.model)} {options}"
    return Remedy(candidate.description, command, changes, True, candidate.notes)


def _options(check: ServingCheck) -> list[str]:
    """The options that repeat a check, each with its value."""
    options = {
        "-d": check.target,
        "--in": str(check.input),
        "--out": str(check.output),
        "--concurrency": str(check.concurrency),
        "--weights": check.weights,
        "--kv": check.kv,
        "--layout": check.layout,
        "--ttft": None if check.ttft is None else f"{1e3 * check.ttft:g}ms",
        "--tpot": None if check.tpot is None else f"{1e3 * check.tpot:g}ms",
    }
    texts = [f"{name} {shlex.quote(value)}" for name, value in options.items() if value is not None]
    return [*texts, *(["--expected"] if check.expected else [])]
