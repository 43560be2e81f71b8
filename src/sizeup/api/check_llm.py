"""Checks whether language models fit a cluster at a concurrency, as `check` does for other models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sizeup.api.check import Progress, check_each
from sizeup.api.llm import INPUT, OUTPUT, llm
from sizeup.language_models.clusters import shipped_clusters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sizeup.checks import Limit
    from sizeup.language_models.capacity import Capacity
    from sizeup.language_models.serving import GpuMemory
    from sizeup.results.check import Check
    from sizeup.results.llm import Serving

_COUNTED = re.compile(r"[0-9]+ ?[xX] ?.+")
_ENGINES = ("sglang", "trtllm", "llamacpp")  # that serve language models alone


@dataclass(frozen=True, slots=True)
class LlmCheckOptions:
    """What a language model must fit: a cluster, and concurrent sequences of a prompt and an answer."""

    target: str
    input: int = INPUT
    output: int = OUTPUT
    concurrency: int = 1
    weights: str | None = None
    kv: str | None = None
    layout: str | None = None


def is_cluster(target: str | None) -> bool:
    """Whether a target is a cluster or an engine of language models, which no other model runs on."""
    name, _, engine = (target or "").strip().partition("/")
    return bool(_COUNTED.fullmatch(name)) or name.casefold() in shipped_clusters() or engine in _ENGINES


def is_configuration(model: str) -> bool:
    """Whether a model is a .gguf or .json file, which no other model is without the prefix `hf:`."""
    return Path(model).suffix.lower() in (".json", ".gguf") and not model.startswith("hf:")


def check_language_models(
    models: Sequence[str], options: LlmCheckOptions, progress: Progress | None = None
) -> tuple[Check, ...]:
    """Check several language models: one that cannot be checked becomes a check with an `error`."""

    def check_one(model: str) -> Iterator[Check]:
        yield check_language_model(model, options)

    return tuple(check_each(models, check_one, None, progress))


def check_language_model(model: str, options: LlmCheckOptions) -> Check:
    """Check whether a language model, its buffers and all sequences fit the fullest GPU."""
    from sizeup.results.check import Check

    serving = llm(
        model, target=options.target, input=options.input, output=options.output,
        concurrency=options.concurrency, weights=options.weights, kv=options.kv, layout=options.layout,
    )  # fmt: skip
    return Check(
        model,
        serving.name,
        "language model",
        f"{serving.cluster.name}/{serving.engine.name}",
        (_limit(serving, options.concurrency),),
        is_file=Path(model.removeprefix("hf:")).is_file(),
        caveats=(f"layout {serving.layout}", *serving.architecture.caveats),
    )


def _limit(serving: Serving, sequences: int) -> Limit:
    """The memory of the fullest GPU; its verdict is that of the engine's cache blocks."""
    limits = [_stage_limit(serving, gpu, sequences) for gpu in serving.gpus]
    return max(limits, key=lambda limit: (limit.need_low or 0, limit.need_high or 0))


def _stage_limit(serving: Serving, gpu: GpuMemory, sequences: int) -> Limit:
    from sizeup.checks import Limit
    from sizeup.checks.limits import MemoryPart

    each, context = -(-sequences // serving.servers), serving.context
    held = gpu.weights_bytes + gpu.tower_bytes
    # What the engine sets aside is what it leaves of its share; if nothing is left, the buffers themselves.
    buffers = gpu.communication + gpu.context
    if serving.engine.name != "sglang":  # whose share has no activations and graphs
        buffers = buffers + gpu.activations + gpu.graphs
    low = gpu.usable_bytes - gpu.cache.high - held if gpu.cache.high else buffers.low
    high = gpu.usable_bytes - gpu.cache.low - held if gpu.cache.low else buffers.high
    least = _cache_bytes(gpu.capacity_high, gpu.cache.high, each, context)
    most = _cache_bytes(gpu.capacity_low, gpu.cache.low, each, context)
    parts = (
        MemoryPart("weights", held, held, "the configuration"),
        MemoryPart("buffers", low, high, f"{serving.engine.title}: activations, graphs, communication"),
        MemoryPart("cache", least, most, f"{each:,} sequences of {context:,} tokens"),
    )
    source = f"{serving.engine.title} on {serving.cluster.device.title}"
    need_low, need_high = held + low + least, held + high + most
    return Limit("ram", "bytes", gpu.usable_bytes, need_low, need_high, source=source, parts=parts)


def _cache_bytes(capacity: Capacity, cache_bytes: int, sequences: int, tokens: int) -> int:
    """Bytes of the cache of all sequences: at most `cache_bytes` if and only if every pool holds them.

    An engine with several pools divides its cache in fixed shares, so that the fullest pool decides.
    """
    needed = [(pool, pool.needed(tokens) * sequences) for pool in capacity.pools]
    if len(needed) > 1 and all(pool.size for pool, _ in needed):
        return max(-(-cache_bytes * units // pool.size) for pool, units in needed)
    return sum(pool.unit_bytes * units for pool, units in needed)
