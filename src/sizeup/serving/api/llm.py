"""Memory, capacity and layouts of a language model, from its configuration."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import overload

from sizeup.api.keywords import with_keyword_hints
from sizeup.errors import SizeupError
from sizeup.serving.api.check import check_of
from sizeup.serving.api.diffusion import IMAGE_SIZE, diffusion
from sizeup.serving.checks.check import ServingCheck
from sizeup.serving.checks.remedies import remedy_options
from sizeup.serving.memory.assumptions import assumptions, not_modeled
from sizeup.serving.memory.deployment import (
    INPUT,
    MOST_COUNTS,
    OUTPUT,
    Deployment,
    check_concurrency,
    check_tokens,
    deploy,
)
from sizeup.serving.memory.engines import COMMUNICATION, CONTEXT, Engine, driver_memory, engine_of
from sizeup.serving.memory.gpus import gpus_of
from sizeup.serving.memory.layouts import Layout, enumerate_layouts
from sizeup.serving.memory.local import check_local, parse_ram, with_ram
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.models.diffusion import is_diffusion
from sizeup.serving.models.images import with_images
from sizeup.serving.models.reader import read
from sizeup.serving.results.diffusion import Diffusion
from sizeup.serving.results.llm import Serving
from sizeup.serving.steps.rates import calibrated_devices, next_tokens
from sizeup.serving.steps.step import Server
from sizeup.serving.times.anchors import slowed
from sizeup.serving.times.cost import Fleet, smallest_fleet
from sizeup.serving.times.disaggregation import disaggregate as disaggregate_gpus
from sizeup.serving.times.divisions import AUTO, best_divisions
from sizeup.serving.times.estimate import calibrated_server
from sizeup.serving.times.goals import MOST_LAYOUTS, Goals
from sizeup.serving.times.scheduler import SchedulerLimits
from sizeup.serving.times.speculation import MTP, Draft, draft_of, layout_problem, with_draft
from sizeup.serving.times.traffic import (
    Traffic,
    rate_simulation,
    read_requests,
    simulate_rate,
    simulate_trace,
)
from sizeup.targets import quantities
from sizeup.targets.clusters import Cluster, cluster, parse_price
from sizeup.targets.quantities import parse_limit
from sizeup.units import quoted

_LEAST_RATE, _MOST_RATE = 1e-6, 1e6
_FLEET_LAYOUTS = 3  # of servers that are compared for a rate
_OF_DIFFUSION = ("config", "target", "steps", "image_size", "guidance", "text_tokens", "weights", "remedies")


@overload
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
    price: float | str | None = None,
    draft: str | os.PathLike[str] | None = None,
    draft_tokens: int | None = None,
    acceptance: float | None = None,
    disaggregate: str | None = None,
    images: int = 0,
    image_size: str | None = None,
    ram: float | str | None = None,
    expected: bool = False,
    remedies: bool = True,
) -> Serving: ...
@overload
def llm(
    config: str | os.PathLike[str],
    *,
    target: str,
    steps: int,
    image_size: str | None = None,
    guidance: bool = False,
    text_tokens: int | None = None,
    weights: str | None = None,
) -> Diffusion: ...
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
    price: float | str | None = None,
    draft: str | os.PathLike[str] | None = None,
    draft_tokens: int | None = None,
    acceptance: float | None = None,
    disaggregate: str | None = None,
    images: int = 0,
    image_size: str | None = None,
    ram: float | str | None = None,
    expected: bool = False,
    remedies: bool = True,
    steps: int | None = None,
    guidance: bool = False,
    text_tokens: int | None = None,
) -> Serving | Diffusion:
    """Return whether a language model fits a cluster, how many sequences it holds, and how fast it is.

    `config` is a config.json (hf_quant_config.json next to it is read), `target` a cluster and an engine such
    as `8xh100/vllm`. `input` and `output` are tokens of a prompt and its answer, `concurrency` one or more
    numbers of concurrent sequences. `weights` and `kv` replace the precision of weights and cache; `layout`
    such as `tp4,dp2` replaces tensor parallelism in a node with one pipeline stage per node. `rate` is a
    number of requests per second that arrive at random: their TTFT and TPOT are simulated. `trace` is a CSV
    file of recorded requests (arrival_s, input, output) to simulate instead, `shared_prefix` the tokens that
    all prompts of a simulation begin with. `ttft` and `tpot` are goals in seconds, or such as "30ms":
    `goal_rows` has the layouts that reach them, and with a `rate`, `fleet` the fewest servers that do.
    `check` is the verdict at the largest concurrency: whether the memory is enough and times are within these
    goals, by the prediction interval or, if `expected`, by expected times. If not, `remedies` are searched.
    `price` is that of a GPU per hour, such as 2.5 or "2.50USD", in place of that of a cluster file:
    `token_cost` has the cost per million tokens. `draft` is the config.json of a draft model for speculative
    decoding, or "mtp" for the model's own MTP layers, with `draft_tokens` per step, each of which is accepted
    with probability `acceptance`. `disaggregate` divides the GPUs into some for prompts and some for answers,
    such as "4:4" or "2xtp4:tp8": `disaggregation` has their times. With "auto", `divisions` has the best one
    of each number of prefill GPUs, at the most requests that reach the goals. `images` of `image_size`
    pixels, such as "1024x768", are added to a prompt: their tokens to `input`, and the vision tower to its
    prefill. No weight is read, and torch is not imported.

    A laptop or phone such as `core-ultra-7-258v/openvino-gpu` runs one sequence; `ram` is its memory, such as
    "16GiB". What its runtime reserves is not known: a model that fits without that is `undetermined`.

    For a diffusion transformer of diffusers (its config.json, or the folder of its pipeline), give the
    denoising `steps` of an image of `image_size` pixels (by default 1024x1024) on a GPU such as `h100`, each
    of one inference, or of two with classifier-free `guidance`. `text_tokens` are those of the text, by
    default as many as the pipeline pads it to. Returned are its weights, FLOPs and `least_image_seconds`, a
    lower bound: arithmetic alone at peak rates.
    """
    if is_diffusion(config):
        _require_defaults(locals())
        return diffusion(
            config, target=target, image_size=image_size or IMAGE_SIZE, steps=steps, guidance=guidance,
            text_tokens=text_tokens, weights=weights,
        )  # fmt: skip
    if steps is not None or guidance or text_tokens is not None:
        raise SizeupError(f"{config}: steps, guidance and text tokens are of diffusion transformers")
    _check_simulation(rate, trace, shared_prefix, input, draft is not None)
    goals = Goals(parse_limit(ttft, quantities.TIME, "--ttft"), parse_limit(tpot, quantities.TIME, "--tpot"))
    architecture, image_assumptions = with_images(read(config, weights), images, image_size, config)
    input = _with_image_tokens(input, architecture, rate, trace, disaggregate)
    machines, engine_name = cluster(target)
    engine = engine_of(engine_name, machines.device)
    machines = with_ram(machines, engine, parse_ram(ram))
    machines = replace(machines, price=parse_price(price) or machines.price)
    counts = _counts(concurrency)
    others = {"--rate": rate, "--trace": trace, "--price": price, "--draft": draft}
    check_local(machines, engine, {**others, "--disaggregate": disaggregate, "--images": images or None})
    deployment = deploy(
        architecture, machines, engine,
        input=input, output=output, kv=kv, layout=layout, sequences=max(counts),
    )  # fmt: skip
    architecture, engine = deployment.architecture, deployment.engine
    speculation = _draft(architecture, draft, draft_tokens, acceptance)
    if speculation is not None:
        deployment = _with_draft(deployment, speculation, input, output)
    serving = Serving(
        architecture.name, architecture, machines, engine, deployment.layout, deployment.kv, weights or "",
        input, output, counts, deployment.gpus,
        (
            *assumptions(architecture, engine, kv, machines, layout is None, engine_name),
            *_draft_assumptions(speculation),
            *image_assumptions,
        ),
        not_modeled(architecture, engine, draft is not None),
        _sources(engine, machines), draft=speculation,
    )  # fmt: skip
    goals.check(output)
    text = None if layout is None else str(replace(serving.layout, replicas=1))
    spec = ServingCheck(
        os.fspath(config), target, input, output, max(counts), weights, kv, text, goals.ttft, goals.tpot,
        parse_ram(ram), expected,
    )  # fmt: skip
    serving = replace(serving, check=check_of(serving, spec, remedies=remedies))
    if goals != Goals():
        serving = _with_goals(serving, goals)
    if disaggregate is not None:
        if not isinstance(disaggregate, str):
            raise SizeupError(f'disaggregate is {quoted(disaggregate)}; give a text such as "4:4"')
        if draft is not None:
            raise SizeupError("a draft with disaggregated serving is not supported: give one of them")
        _calibrated(serving, "disaggregated serving needs")
        serving = _disaggregated(serving, disaggregate)
    if serving.fits == "no":
        return replace(serving, remedies=_remedies(serving, replace(spec, concurrency=min(counts))))
    return _with_traffic(serving, rate, trace, shared_prefix)


def _with_traffic(
    serving: Serving, rate: float | None, trace: str | os.PathLike[str] | None, shared_prefix: int
) -> Serving:
    """The result with the simulation of a rate or a trace, and the servers that the rate needs for goals."""
    if rate is None and trace is None:
        return serving
    serving = replace(serving, traffic=_traffic(serving, rate, trace, shared_prefix))
    if rate is None or serving.goals is None:
        return serving
    return replace(serving, fleet=_fleet(serving, rate, shared_prefix))


def _require_defaults(arguments: Mapping[str, object]) -> None:
    """Raise SizeupError if an argument is given that diffusion transformers do not have."""
    for name, parameter in inspect.signature(llm).parameters.items():
        default = parameter.default
        if name not in _OF_DIFFUSION and arguments[name] not in (default, [default]):
            raise SizeupError(f"{arguments['config']}: a diffusion transformer has no {name}: leave it out")


def _disaggregated(serving: Serving, text: str) -> Serving:
    """The result with a division of its GPUs; of `auto`, with the best ones, and the times of the first."""
    deployment, counts, lengths = serving.deployment, serving.concurrency, (serving.input, serving.output)
    if text.strip().casefold() == AUTO:
        rows = best_divisions(deployment, max(counts), *lengths, serving.goals)
        serving = replace(serving, divisions=rows)
        if not rows:
            return serving
        text = rows[0].text
    return replace(serving, disaggregation=disaggregate_gpus(text, deployment, counts, *lengths))


def _check_simulation(
    rate: float | None,
    trace: str | os.PathLike[str] | None,
    shared_prefix: int,
    input: int,
    has_draft: bool,
) -> None:
    """Raise SizeupError unless these options describe one simulation, or none."""
    if rate is not None and trace is not None:
        raise SizeupError("give a rate or a trace, not both")
    is_simulated = rate is not None or trace is not None
    if not (_is_number(shared_prefix, int) and shared_prefix >= 0) or (shared_prefix and not is_simulated):
        raise SizeupError("shared_prefix: give a number of tokens, and a rate or a trace to simulate")
    if rate is not None and shared_prefix and shared_prefix >= input:
        raise SizeupError(f"shared_prefix: give fewer tokens than those of a prompt, {input:,}")
    if rate is not None and not (_is_number(rate, int, float) and _LEAST_RATE <= rate <= _MOST_RATE):
        raise SizeupError(f"rate: give requests per second from {_LEAST_RATE:g} to {_MOST_RATE:,.0f}")
    if has_draft and is_simulated:
        raise SizeupError("speculative decoding is not simulated: give a draft without a rate or a trace")


def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _draft(
    architecture: Architecture,
    source: str | os.PathLike[str] | None,
    tokens: int | None,
    acceptance: float | None,
) -> Draft | None:
    if source is not None:
        if not isinstance(source, str | os.PathLike):
            raise SizeupError(f"draft is {quoted(source)}; give the path of a config.json, or mtp")
        return draft_of(architecture, None if str(source) == MTP else read(source), tokens, acceptance)
    if tokens is not None or acceptance is not None:
        raise SizeupError("draft tokens and an acceptance need a draft")
    return None


def _with_draft(deployment: Deployment, draft: Draft, input: int, output: int) -> Deployment:
    """The deployment with its draft on each GPU; raises SizeupError if the layout has no place for it."""
    if draft.step.max_context:
        check_tokens(draft.step, input, output)
    problem = layout_problem(draft, deployment.layout)
    if problem:
        raise SizeupError(f"--draft with layout {deployment.layout}: {problem}; give another --layout")
    loaded, memory = with_draft(deployment.architecture, draft), deployment.gpus[0].total_bytes
    gpus = gpus_of(loaded, deployment.layout, deployment.engine, memory, deployment.kv)
    return replace(deployment, architecture=loaded, gpus=gpus)


def _draft_assumptions(draft: Draft | None) -> tuple[str, ...]:
    if draft is None:
        return ()
    return (
        "draft: every token is accepted with the same probability, whatever came before",
        "draft: in the model's layout, with its cache precision and the rates of its calibration",
    )


def _with_image_tokens(input: int, architecture: Architecture, *others: object) -> int:
    """Tokens of a prompt with its images; raises SizeupError if one of the other options is given, too."""
    images = architecture.images
    if images is None or not _is_number(input, int):
        return input
    if any(each is not None for each in others):
        raise SizeupError("images: give them without a rate, a trace, or disaggregated serving")
    return input + images.count * images.tokens


def _with_goals(serving: Serving, goals: Goals) -> Serving:
    """The result with goals for which layouts are listed; otherwise the reason is among the assumptions."""
    count = len(enumerate_layouts(serving.architecture, serving.cluster))
    engine, device = serving.engine, serving.cluster.device.name
    if serving.is_local:
        return serving
    if count > MOST_LAYOUTS:
        reason = (
            f"{serving.cluster.devices:,} devices have {count:,}, and at most {MOST_LAYOUTS} are compared"
        )
    elif _server(serving) is None:
        reason = f"{engine.title} on {device} has no calibrated times{calibrated_devices(engine.name)}"
    else:
        return replace(serving, goals=goals)
    missing = f"layouts that reach the goals are not listed: {reason}"
    return replace(serving, assumptions=(*serving.assumptions, missing))


def _calibrated(serving: Serving, what: str) -> Server:
    """The server with calibrated rates; raises SizeupError if it has none."""
    server = _server(serving)
    if server is None:
        engine, device = serving.engine, serving.cluster.device.name
        others = calibrated_devices(engine.name)
        raise SizeupError(f"{what} calibrated times, and {engine.title} on {device} has none{others}")
    return server


def _server(serving: Serving) -> Server | None:
    """The server with calibrated rates; None if it has none."""
    engine = serving.engine.name
    server = calibrated_server(serving.architecture, serving.layout, serving.cluster, engine, serving.kv)
    return None if server is None or server[1] is None else server[0]


def _traffic(
    serving: Serving, rate: float | None, trace: str | os.PathLike[str] | None, shared_prefix: int
) -> Traffic:
    """Simulate the servers of the layout, whose cache blocks are those of sequences of the mean length."""
    server = _calibrated(serving, "a rate needs" if trace is None else "a trace needs")
    requests = None if trace is None else read_requests(trace, serving.architecture.max_context)
    context = serving.context if requests is None else int((requests.input + requests.output).mean())
    limits = _limits(serving, context, server.division.servers, shared_prefix)
    running = _most_running(serving, context)
    if requests is not None:
        lengths = float(requests.input.mean()), float(requests.output.mean())
        return simulate_trace(slowed(server, *lengths, running), requests, limits)
    server = slowed(server, serving.input, serving.output, running)
    return simulate_rate(server, rate or 0.0, serving.input, serving.output, limits)


def _most_running(serving: Serving, context: int) -> int:
    """The largest concurrency, without requests that wait for the cache."""
    return max(min(max(serving.concurrency), serving.max_sequences(context)), 1)


def _limits(serving: Serving, context: int, servers: int, shared_prefix: int) -> SchedulerLimits:
    engine = serving.engine
    each = -(-context // engine.block_tokens)
    return SchedulerLimits(
        engine.batched_tokens,
        min(engine.logits, engine.batched_tokens),
        max(serving.max_sequences(context) * each // servers, each),
        engine.block_tokens,
        shared_prefix,
    )


def _fleet(serving: Serving, rate: float, shared_prefix: int) -> Fleet | None:
    """The fewest GPUs whose servers reach the goals, in the best layouts for them; None if none does."""
    has_experts = serving.architecture.expert_count
    best = [
        row.layout for number, row in enumerate(serving.goal_rows(MOST_LAYOUTS)) if not number or row.is_tied
    ]
    layouts = dict.fromkeys(replace(each, data=each.data if has_experts else 1, replicas=1) for each in best)
    fleets = [_fleet_of(serving, each, rate, shared_prefix) for each in list(layouts)[:_FLEET_LAYOUTS]]
    return min((each for each in fleets if each is not None), key=lambda each: each.gpus, default=None)


def _fleet_of(serving: Serving, layout: Layout, rate: float, shared_prefix: int) -> Fleet | None:
    """The fewest servers of a layout that reach the goals; None if no number of them does."""
    gpus = gpus_of(serving.architecture, layout, serving.engine, serving.gpus[0].total_bytes, serving.kv)
    one = replace(serving, layout=layout, gpus=gpus)
    calibrated = _calibrated(one, "goals need")
    server = slowed(calibrated, one.input, one.output, _most_running(one, one.context))
    servers = server.division.servers
    simulate = rate_simulation(
        server, one.input, one.output, _limits(one, one.context, servers, shared_prefix)
    )
    return smallest_fleet(layout, serving.goals or Goals(), lambda count: simulate(rate, count * servers))


def _remedies(serving: Serving, spec: ServingCheck) -> tuple[str, ...]:
    """Options with which the least concurrency fits, least change first; with a draft, leaving it out.

    What a laptop or phone holds is never certain: its options are those with which it may fit.
    """
    if serving.is_local:
        return tuple(_local_remedies(spec.model, serving, spec.kv))
    if serving.draft is not None:
        memory = serving.gpus[0].total_bytes
        gpus = gpus_of(serving.architecture, serving.layout, serving.engine, memory, serving.kv)
        return ("no --draft",) if replace(serving, draft=None, gpus=gpus).fits == "yes" else ()
    options = remedy_options(replace(spec, ttft=None, tpot=None))
    # `--in` of a check counts the tokens of images, too.
    return tuple(text for text in options if serving.images is None or not text.startswith("--in "))


def _local_remedies(config: str, serving: Serving, kv: str | None) -> Iterator[str]:
    """Precisions of weights, widest first, with which weights and cache do not exceed the memory."""
    for precision in reversed(next_tokens()[serving.engine.name].precisions):
        try:
            other = read(config, precision)
        except SizeupError:  # the weights of a GGUF file have their precision
            return
        deployment = deploy(
            other, serving.cluster, serving.engine, input=serving.input, output=serving.output, kv=kv
        )
        if deployment.fits_at(1) != "no":
            yield f"--weights {precision}"


def _counts(concurrency: int | Sequence[int]) -> tuple[int, ...]:
    if not _is_number(concurrency, int, list, tuple, range):
        raise SizeupError(f"concurrency: give a whole number, or several, not {quoted(concurrency)}")
    counts = (concurrency,) if isinstance(concurrency, int) else tuple(concurrency[: MOST_COUNTS + 1])
    check_concurrency(counts)
    return tuple(sorted(set(counts)))


def _sources(engine: Engine, machines: Cluster) -> tuple[str, ...]:
    if engine.is_local:
        known = next_tokens().get(engine.name)
        return (f"{engine.title}: {engine.source}", *([] if known is None else [known.source]))
    buffers = (CONTEXT, COMMUNICATION, engine.graphs, driver_memory(0))
    links = (link.source for link in (machines.link, machines.network) if link is not None and link.source)
    return (f"{engine.title}: {engine.source}", *(part.source for part in buffers), *links)
