"""Memory, capacity and layouts of a language model, from its configuration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from sizeup.api.keywords import with_keyword_hints
from sizeup.errors import SizeupError, TargetError
from sizeup.language_models.architecture import Architecture
from sizeup.language_models.cache import cache_bits
from sizeup.language_models.clusters import Cluster, cluster
from sizeup.language_models.engines import COMMUNICATION, CONTEXT, Engine, driver_memory, engine_of
from sizeup.language_models.layouts import Layout, Layouts, enumerate_layouts, parse_layout
from sizeup.language_models.reader import read
from sizeup.language_models.serving import gpus_of
from sizeup.results.llm import Serving

INPUT, OUTPUT = 4096, 512
_MOST_TOKENS = 1 << 32
_MOST_SEQUENCES = 1 << 24
_MOST_COUNTS = 1_000

NOT_MODELED = (
    "latency and throughput",
    "prefix caching: shared prompts are stored once per sequence",
    "speculative decoding: MTP layers and draft models are not loaded",
    "LoRA adapters, offloading to the host, and fragmentation of the allocator",
    "images and audio in prompts; the weights of a vision tower are counted",
)


@with_keyword_hints
def llm(
    config: str | os.PathLike[str],
    *,
    target: str,
    input: int = INPUT,
    output: int = OUTPUT,
    concurrency: int | Sequence[int] = 1,
    weights: str | None = None,
    kv: str | None = None,
    layout: str | Layout | None = None,
) -> Serving:
    """Return whether a language model fits a cluster, and how many sequences of which context it holds.

    `config` is a config.json (hf_quant_config.json next to it is read), `target` a cluster and an engine such
    as `8xh100/vllm`. `input` and `output` are tokens of a prompt and its answer, `concurrency` one or more
    numbers of concurrent sequences. `weights` and `kv` replace the precision of weights and cache; `layout`
    such as `tp4,dp2` replaces tensor parallelism in a node with one pipeline stage per node. No weight is
    read, and torch is not imported.
    """
    architecture = read(config, weights)
    machines, engine_name = cluster(target)
    counts = _counts(concurrency)
    _check_tokens(architecture, input, output)
    _check_device(machines)
    memory = machines.memory_bytes
    if memory is None:
        raise TargetError(f"{machines.name}: the memory of {machines.device.name} is unknown")
    engine = engine_of(engine_name).on(machines.device.name, memory)
    precision = kv or architecture.kv_dtype or _cache_dtype(architecture)
    cache_bits(precision)
    chosen = _layout(layout, architecture, machines, engine)
    serving = Serving(
        architecture.name, architecture, machines, engine, chosen, precision, weights or "", input, output,
        counts, gpus_of(architecture, chosen, engine, memory, precision),
        _assumptions(architecture, engine, kv, machines, layout is None), NOT_MODELED,
        _sources(engine, machines),
    )  # fmt: skip
    return replace(serving, remedies=_remedies(config, serving)) if serving.fits == "no" else serving


def _remedies(config: str | os.PathLike[str], serving: Serving) -> tuple[str, ...]:
    """Options with which a model fits: another layout, else precisions, least change first."""
    best = serving.layouts(1)
    if best and best[0].fits == "yes":
        return (f"--layout {best[0].layout}",)
    for weights, kv in _PRECISIONS:
        if cache_bits(kv or serving.kv) > cache_bits(serving.kv):
            continue
        architecture = serving.architecture if weights is None else read(config, weights)
        if architecture.stored_bytes > serving.architecture.stored_bytes:
            continue
        memory = serving.gpus[0].total_bytes
        gpus = gpus_of(architecture, serving.layout, serving.engine, memory, kv or serving.kv)
        if replace(serving, architecture=architecture, kv=kv or serving.kv, gpus=gpus).fits == "yes":
            options = ((f"--weights {weights}", weights), (f"--kv {kv}", kv))
            return (" ".join(text for text, value in options if value),)
    return ()


# Precisions to try, least change first.
_PRECISIONS: tuple[tuple[str | None, str | None], ...] = (
    (None, "fp8"), ("fp8", None), ("fp8", "fp8"), ("int4", None), ("int4", "fp8"),
)  # fmt: skip


def _check_device(machines: Cluster) -> None:
    """Raises TargetError for a device that is no GPU: what engines reserve on others is not known."""
    device = machines.device
    if device.device_class not in ("gpu", "accelerator") and device.vendor != "NVIDIA":
        raise TargetError(
            f"{device.name} is a {device.device_class}; sizeup llm knows what engines reserve on GPUs,"
            " e.g. -d rtx-4090/llamacpp"
        )


def _counts(concurrency: int | Sequence[int]) -> tuple[int, ...]:
    counts = (concurrency,) if isinstance(concurrency, int) else tuple(concurrency[: _MOST_COUNTS + 1])
    are_valid = all(_is_within(count, _MOST_SEQUENCES) for count in counts)
    if not 1 <= len(counts) <= _MOST_COUNTS or not are_valid:
        raise SizeupError(
            f"concurrency: give integers from 1 to {_MOST_SEQUENCES:,}, at most {_MOST_COUNTS:,} of them"
        )
    return tuple(sorted(set(counts)))


def _is_within(count: object, most: int) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= most


def _check_tokens(architecture: Architecture, input: int, output: int) -> None:
    for name, count in (("input", input), ("output", output)):
        if not _is_within(count, _MOST_TOKENS):
            raise SizeupError(f"{name}: give a number of tokens from 1 to {_MOST_TOKENS:,}")
    limit = architecture.max_context
    if limit and input + output > limit:
        raise SizeupError(
            f"{input:,} + {output:,} tokens exceed the context of {architecture.name}, {limit:,} tokens"
            " (max_position_embeddings)"
        )


def _cache_dtype(architecture: Architecture) -> str:
    return architecture.dtype if architecture.dtype != "fp32" else "bf16"


def _layout(
    layout: str | Layout | None, architecture: Architecture, machines: Cluster, engine: Engine
) -> Layout:
    if isinstance(layout, str):
        return parse_layout(layout, architecture, machines)
    layouts = enumerate_layouts(architecture, machines)
    if layout is not None:
        layouts.index(layout)
        return layout
    if not len(layouts):
        raise SizeupError(f"{architecture.name}: no layout divides it over {machines.devices:,} devices")
    return _default(layouts, engine)


def _default(layouts: Layouts, engine: Engine) -> Layout:
    """The widest tensor parallelism, then as few stages as possible, without expert parallelism.

    llama.cpp gives each GPU whole layers (`--split-mode layer`).
    """
    rows = (layouts[row] for row in range(len(layouts)))
    if engine.name == "llamacpp":
        return min(rows, key=lambda row: (-row.pipeline, row.tensor, row.replicas, row.data, row.expert))
    return min(rows, key=lambda row: (-row.tensor, row.replicas, row.data, row.pipeline, row.expert))


def _assumptions(
    architecture: Architecture, engine: Engine, kv: str | None, machines: Cluster, is_default_layout: bool
) -> tuple[str, ...]:
    lines = [
        f"{engine.title} {engine.version}: {engine.defaults}; capacity {engine.verification}",
        "buffers of the engine: intervals from start-up logs",
        "activations: from half to twice the widest layer",
    ]
    device = machines.device
    if device.vendor != "NVIDIA":
        lines.append(f"buffers are those of NVIDIA GPUs; none are known for {device.title}")
    if machines.has_inline_ecc:
        lines.append(f"memory: ECC is on, which takes 1/16 of the memory of {device.name}")
    if is_default_layout and machines.devices > 1:
        kind = "tensor parallelism within a node, pipeline stages across nodes"
        lines.append(f"layout: {'--split-mode layer' if engine.name == 'llamacpp' else kind}")
    if machines.devices > 1:
        lines.append("transfer: bytes at data-sheet bandwidth, all stages one after another, without latency")
    if kv is None:
        stated = "as the checkpoint states" if architecture.kv_dtype else "the checkpoint's dtype"
        lines.append(f"key-value cache: {stated}")
    return (*lines, *architecture.caveats)


def _sources(engine: Engine, machines: Cluster) -> tuple[str, ...]:
    buffers = (CONTEXT, COMMUNICATION, engine.graphs, driver_memory(0))
    links = (link.source for link in (machines.link, machines.network) if link is not None and link.source)
    return (f"{engine.title}: {engine.source}", *(part.source for part in buffers), *links)
