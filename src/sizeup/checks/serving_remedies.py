"""Remedies for a language model that does not fit, each carried out and checked, least change first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from sizeup.checks.language_models import ServingCheck
from sizeup.checks.remedy_case import Change, Remedy
from sizeup.errors import SizeupError
from sizeup.language_models.cache import cache_bits
from sizeup.language_models.clusters import Cluster, shipped_clusters
from sizeup.language_models.deployment import cache_precision
from sizeup.language_models.layout_costs import evaluate
from sizeup.language_models.layouts import Layout, enumerate_layouts

_CANDIDATES = 8  # layouts that are tried, those of least memory first
_MOST_DEVICES = 1024  # that a remedy proposes
_MOST_IN_NODE = 16  # of a device without a shipped cluster
_CACHE_NOTE = "a cache of fewer bits changes results: measure the accuracy"
_WEIGHTS_NOTE = "changes the model: quantize it and measure the accuracy"
# Precisions of weights and cache together, if neither is enough.
_BOTH = (("fp8", "fp8"), ("int4", "fp8"))


def serving_remedies(check: ServingCheck) -> tuple[Remedy, ...]:
    """Changes with which all sequences fit; each was carried out."""
    steps = (_other_layout, _fewer_sequences, _shorter_prompts, _precisions, _more_devices)
    return tuple(remedy for step in steps for remedy in step(check))


def _other_layout(check: ServingCheck) -> Iterator[Remedy]:
    changed = _in_some_layout(check)
    if changed is not None:
        yield from _remedy(check, changed, f"layout {changed.layout}")


def _fewer_sequences(check: ServingCheck) -> Iterator[Remedy]:
    most = check.deployment.sequences_range()[0]
    if 1 <= most < check.concurrency:
        changed = replace(check, concurrency=most)
        yield from _remedy(check, changed, f"at most {most:,} concurrent sequences")


def _shorter_prompts(check: ServingCheck) -> Iterator[Remedy]:
    deployment = check.deployment
    each = -(-check.concurrency // deployment.servers)
    context = min(gpu.capacity_low.max_context(each) for gpu in deployment.gpus)
    tokens = context - check.output
    if 1 <= tokens < check.input:
        yield from _remedy(check, replace(check, input=tokens), f"prompts of at most {tokens:,} tokens")


def _precisions(check: ServingCheck) -> Iterator[Remedy]:
    """The cache at fp8, weights at fp8 and int4, or both, as far as they are smaller."""
    remedies: list[Remedy] = []
    if cache_bits(check.deployment.kv) > cache_bits("fp8"):
        remedies += _remedy(check, replace(check, kv="fp8"), "key-value cache at fp8", (_CACHE_NOTE,))
    for weights in ("fp8", "int4"):
        changed = _with_weights(check, weights)
        if changed is not None:
            remedies += _remedy(check, changed, f"weights at {weights}", (_WEIGHTS_NOTE,))
    if remedies:
        yield from remedies
        return
    for weights, kv in _BOTH:
        changed = _with_weights(replace(check, kv=kv), weights)
        if changed is not None and cache_bits(check.deployment.kv) > cache_bits(kv):
            text = f"weights at {weights} and key-value cache at {kv}"
            remedy = next(_remedy(check, changed, text, (_WEIGHTS_NOTE, _CACHE_NOTE)), None)
            if remedy is not None:
                yield remedy
                return


def _with_weights(check: ServingCheck, weights: str) -> ServingCheck | None:
    """The check at another precision of weights; None if it needs no fewer bytes."""
    changed = replace(check, weights=weights)
    try:
        is_smaller = changed.architecture.stored_bytes < check.architecture.stored_bytes
    except SizeupError:  # a GGUF file has its precision
        return None
    return changed if is_smaller else None


def _more_devices(check: ServingCheck) -> Iterator[Remedy]:
    """The smallest number of devices on which some layout fits."""
    machines = check.deployment.cluster
    for text in _larger_clusters(machines):
        larger = replace(check, target=f"{text}/{check.deployment.engine.name}", layout=None)
        try:
            is_default = larger.limit.fits is True
            changed = larger if is_default else _in_some_layout(larger)
        except SizeupError:  # no layout divides the model over all devices
            continue
        if changed is not None:
            layout = changed.deployment.layout
            number = changed.deployment.cluster.devices
            yield from _remedy(check, changed, f"{number:,} x {machines.device.name} as {layout}")
            return


def _larger_clusters(machines: Cluster) -> Iterator[str]:
    """Targets of more devices of the same kind: one node first, then whole nodes."""
    name = machines.device.name
    like = next((known for known in shipped_clusters().values() if known.device.name == name), None)
    node = max(machines.devices_per_node, _MOST_IN_NODE if like is None else like.devices_per_node)
    if machines.nodes == 1:
        yield from (f"{count}x{name}" for count in range(machines.devices + 1, node + 1))
    else:
        node = machines.devices_per_node
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
        if changed.limit.fits is True:
            return changed
    return None


def _text(layout: Layout) -> str:
    """A layout as an option: replicas follow from the number of devices."""
    return str(replace(layout, replicas=1))


def _remedy(
    check: ServingCheck, changed: ServingCheck, description: str, notes: tuple[str, ...] = ()
) -> Iterator[Remedy]:
    """The remedy, if all sequences fit with it."""
    before, after = check.limit, changed.limit
    if after.fits is True and before.need is not None and after.need is not None:
        change = Change(after.name, after.unit, before.need, after.need, True)
        yield Remedy(description, _command(changed), (change,), True, notes)


def _command(check: ServingCheck) -> str:
    """The command that repeats a check."""
    options = {
        "-d": check.target,
        "--in": str(check.input),
        "--out": str(check.output),
        "--concurrency": str(check.concurrency),
        "--weights": check.weights,
        "--kv": check.kv,
        "--layout": check.layout,
    }
    texts = (f"{name} {shlex.quote(value)}" for name, value in options.items() if value is not None)
    return f"sizeup check {shlex.quote(check.model)} {' '.join(texts)}"
