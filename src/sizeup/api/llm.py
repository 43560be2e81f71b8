"""Memory, capacity and layouts of a language model, from its configuration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from sizeup.api.keywords import with_keyword_hints
from sizeup.errors import SizeupError
from sizeup.language_models.architecture import Architecture
from sizeup.language_models.cache import cache_bits
from sizeup.language_models.clusters import Cluster, cluster
from sizeup.language_models.deployment import INPUT, MOST_COUNTS, OUTPUT, check_concurrency, deploy
from sizeup.language_models.engines import COMMUNICATION, CONTEXT, Engine, driver_memory, engine_of
from sizeup.language_models.layouts import Layout, enumerate_layouts
from sizeup.language_models.reader import read
from sizeup.language_models.serving import gpus_of
from sizeup.results.llm import Serving
from sizeup.serving.estimate import calibrated_server
from sizeup.serving.goals import Goals
from sizeup.serving.rates import calibrations
from sizeup.serving.scheduler import SchedulerLimits
from sizeup.serving.step import Server
from sizeup.serving.trace import read_requests
from sizeup.serving.traffic import Traffic, simulate_rate, simulate_trace
from sizeup.targets import quantities
from sizeup.targets.quantities import parse_limit

_LEAST_RATE, _MOST_RATE = 1e-6, 1e6
_MOST_GOAL_LAYOUTS = 400  # DeepSeek-V3 has 335 on 64 devices

NOT_MODELED = (
    "requests of different lengths, other than in a trace",
    "prefix caching, other than --shared-prefix in a simulation",
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
    rate: float | None = None,
    trace: str | os.PathLike[str] | None = None,
    shared_prefix: int = 0,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
) -> Serving:
    """Return whether a language model fits a cluster, how many sequences it holds, and how fast it is.

    `config` is a config.json (hf_quant_config.json next to it is read), `target` a cluster and an engine such
    as `8xh100/vllm`. `input` and `output` are tokens of a prompt and its answer, `concurrency` one or more
    numbers of concurrent sequences. `weights` and `kv` replace the precision of weights and cache; `layout`
    such as `tp4,dp2` replaces tensor parallelism in a node with one pipeline stage per node. `rate` is a
    number of requests per second that arrive at random: their TTFT and TPOT are simulated. `trace` is a CSV
    file of recorded requests (arrival_s, input, output) to simulate instead, `shared_prefix` the tokens that
    all prompts of a simulation begin with. `ttft` and `tpot` are goals in seconds, or such as "30ms":
    `goal_rows` has the layouts that reach them. No weight is read, and torch is not imported.
    """
    if rate is not None and trace is not None:
        raise SizeupError("give a rate or a trace, not both")
    if shared_prefix and (shared_prefix < 0 or (rate is None and trace is None)):
        raise SizeupError("shared_prefix: give a number of tokens, and a rate or a trace to simulate")
    goals = Goals(parse_limit(ttft, quantities.TIME, "--ttft"), parse_limit(tpot, quantities.TIME, "--tpot"))
    if rate is not None and not _LEAST_RATE <= rate <= _MOST_RATE:
        raise SizeupError(f"rate: give requests per second from {_LEAST_RATE:g} to {_MOST_RATE:,.0f}")
    architecture = read(config, weights)
    machines, engine_name = cluster(target)
    counts = _counts(concurrency)
    engine = engine_of(engine_name)
    deployment = deploy(architecture, machines, engine, input=input, output=output, kv=kv, layout=layout)
    engine = deployment.engine
    serving = Serving(
        architecture.name, architecture, machines, engine, deployment.layout, deployment.kv, weights or "",
        input, output, counts, deployment.gpus,
        _assumptions(architecture, engine, kv, machines, layout is None),
        NOT_MODELED, _sources(engine, machines),
    )  # fmt: skip
    if goals != Goals():
        _require_few_layouts(serving)
        _calibrated(serving, "goals need")
        serving = replace(serving, goals=goals)
    if serving.fits == "no":
        return replace(serving, remedies=_remedies(config, serving))
    if rate is None and trace is None:
        return serving
    return replace(serving, traffic=_traffic(serving, rate, trace, shared_prefix))


def _require_few_layouts(serving: Serving) -> None:
    count = len(enumerate_layouts(serving.architecture, serving.cluster))
    if count > _MOST_GOAL_LAYOUTS:
        raise SizeupError(
            f"goals are searched in at most {_MOST_GOAL_LAYOUTS} layouts, and {serving.cluster.devices:,}"
            f" devices have {count:,}; give the devices of one server"
        )


def _calibrated(serving: Serving, what: str) -> Server:
    """The server with calibrated rates; raises SizeupError if it has none."""
    engine, device = serving.engine, serving.cluster.device.name
    server = calibrated_server(serving.architecture, serving.layout, serving.cluster, engine.name, serving.kv)
    if server is None or server[1] is None:
        known = calibrations().get(engine.name)
        devices = f"; calibrated: {', '.join(known.rates)}" if known else ""
        raise SizeupError(f"{what} calibrated times, and {engine.title} on {device} has none{devices}")
    return server[0]


def _traffic(
    serving: Serving, rate: float | None, trace: str | os.PathLike[str] | None, shared_prefix: int
) -> Traffic:
    """Simulate the servers of the layout, whose cache blocks are those of sequences of the mean length."""
    engine = serving.engine
    server = _calibrated(serving, "a rate needs" if trace is None else "a trace needs")
    servers, block = server.division.servers, engine.block_tokens
    requests = None if trace is None else read_requests(trace, serving.architecture.max_context)
    context = serving.context if requests is None else int((requests.input + requests.output).mean())
    each = -(-context // block)
    limits = SchedulerLimits(
        engine.batched_tokens,
        min(engine.logits, engine.batched_tokens),
        max(serving.max_sequences(context) * each // servers, each),
        block,
        shared_prefix,
    )
    if requests is not None:
        return simulate_trace(server, requests, limits)
    return simulate_rate(server, rate or 0.0, serving.input, serving.output, limits)


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


def _counts(concurrency: int | Sequence[int]) -> tuple[int, ...]:
    counts = (concurrency,) if isinstance(concurrency, int) else tuple(concurrency[: MOST_COUNTS + 1])
    check_concurrency(counts)
    return tuple(sorted(set(counts)))


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
