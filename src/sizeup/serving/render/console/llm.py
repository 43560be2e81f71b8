"""Serving estimates as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sizeup import units
from sizeup.render.console.check import render as render_checks
from sizeup.render.console.layout import FIT_STYLES, print_labeled, print_rows
from sizeup.serving.render.console import disaggregation as llm_disaggregation
from sizeup.serving.render.console import times as llm_times
from sizeup.units import FLOPS_PER_MAC, plural, printable

if TYPE_CHECKING:
    from sizeup.serving.memory.engines import Range as ByteRange
    from sizeup.serving.memory.gpus import GpuMemory
    from sizeup.serving.models.architecture import Images
    from sizeup.serving.results.llm import Serving
    from sizeup.serving.times.speculation import Draft


def render(serving: Serving, console: Console, top: int = 5, by: str = "memory") -> None:
    """Print the verdict, the memory of the fullest GPU, concurrency, layouts, and what was assumed."""
    console.print(Text(printable(title(serving)), style="bold"))
    print_labeled(console, "fits", verdict(serving), FIT_STYLES[serving.fits])
    check = serving.check if _is_check_shown(serving) else None
    for text in serving.remedies if check is None or not check.remedies else ():
        print_labeled(console, remedy_label(serving), text)
    for label, text in facts(serving):
        print_labeled(console, label, text)
    console.print()
    if serving.is_local:
        rows = [(*row[:2], row[3]) for row in memory_rows(serving)]
        print_rows(console, ("memory", "share", "of the RAM"), rows)
    else:
        titles = ("memory", "share", "interval", f"of the fullest GPU{_stage(serving)}")
        print_rows(console, titles, memory_rows(serving))
        console.print()
        print_rows(console, POINT_TITLES, point_rows(serving))
    llm_times.render(serving, console, top)
    llm_disaggregation.render(serving, console)
    layouts = layout_rows(serving, top, by)
    if layouts:
        console.print()
        console.print(f"  {layouts_caption(serving)}:")
        print_rows(console, LAYOUT_TITLES, layouts)
    console.print()
    for text in serving.assumptions:
        print_labeled(console, "assumed", text)
    print_labeled(console, "not modeled", "; ".join(serving.not_modeled))
    if check is not None:
        console.print()
        render_checks((check,), console)


def _is_check_shown(serving: Serving) -> bool:
    """Whether times are limited, or the largest concurrency may not fit; `fits` states it of laptops."""
    check = serving.check
    if check is None:
        return False
    return len(check.limits) > 1 or (check.fits is not True and not serving.is_local)


def title(serving: Serving) -> str:
    """Model, cluster, engine and layout in one line."""
    cluster, engine = serving.cluster, serving.engine
    if serving.is_local:
        return f"{serving.name} on {cluster.device.name}, {engine.title}"
    return (
        f"{serving.name} on {cluster.devices} x {cluster.device.name}, {engine.title} {engine.version},"
        f" {serving.layout}"
    )


def verdict(serving: Serving) -> str:
    """Whether it fits, and how many sequences do."""
    if serving.is_local:
        return _local_verdict(serving)
    low, high = serving.sequences_range()
    least = min(serving.concurrency)
    sequences = f"{plural(least, 'sequence')} of {serving.context:,} tokens"
    if serving.fits == "no":
        missing = serving.memory.shortfall_bytes
        if missing:
            return f"no: weights and buffers exceed what a GPU can hold by {units.size(missing)}"
        return f"no: {sequences} do not fit; at most {high:,} do"
    spread = f" ({low:,} to {high:,})" if low != high else ""
    return f"{serving.fits}: {sequences}; at most {serving.max_sequences():,}{spread}"


def _local_verdict(serving: Serving) -> str:
    gpu, device = serving.memory, serving.cluster.device.name
    taken = gpu.weights_bytes + gpu.tower_bytes + serving.sequence_bytes
    needed, total = units.size(taken), f"the {units.size(gpu.total_bytes)} of {device}"
    if serving.fits == "no":
        return f"no: weights and cache take {needed}, more than {total}"
    return f"undetermined: weights and cache take {needed} of {total}; what the runtime reserves is not known"


def remedy_label(serving: Serving) -> str:
    """How certain it is that the model fits with one of the remedies."""
    return "may fit" if serving.is_local else "would fit"


def facts(serving: Serving) -> Iterator[tuple[str, str]]:
    """Labels and texts of the model and its largest context."""
    model = serving.architecture
    weights = f"{units.count(model.parameters)} parameters, {units.size(model.stored_bytes)}"
    towers = sum(part.stored_bytes for part in model.parts if part.kind != "mtp")
    tower = f" and {units.size(towers)} of a vision tower" if towers else ""
    yield "weights", f"{weights}{' at ' + serving.weights if serving.weights else ''}{tower}"
    yield (
        "cache",
        f"{serving.kv}, {units.size(serving.sequence_bytes)} per sequence of {serving.context:,} tokens",
    )
    if serving.draft is not None:
        yield "draft", draft_text(serving, serving.draft)
    if serving.images is not None:
        yield "images", images_text(serving, serving.images)
    context = serving.max_context()
    limit = " (the model's limit)" if context and context == model.max_context else ""
    limit += ", if the runtime reserved nothing" if context and serving.is_local else ""
    yield "context", f"at most {context:,} tokens for one sequence{limit}"
    prefill, decode = (
        units.count(FLOPS_PER_MAC * macs) for macs in (serving.prefill_macs, serving.decode_macs)
    )
    vision = f" and {units.count(FLOPS_PER_MAC * serving.tower_macs)} in the vision tower"
    vision = "" if serving.images is None else vision
    prompt = f"a prompt of {plural(serving.input, 'token')}{vision}"
    yield "FLOPs", f"{prefill} for {prompt}, {decode} for the next token"


def images_text(serving: Serving, images: Images) -> str:
    """The images of a prompt, and their tokens."""
    tokens = images.count * images.tokens
    return (
        f"{images.count:,} of {images.width:,} x {images.height:,} pixels: {images.patches:,} patches and"
        f" {images.tokens:,} tokens each, {tokens:,} of the {serving.input:,} tokens of a prompt"
    )


def draft_text(serving: Serving, draft: Draft) -> str:
    """The draft, and the tokens that a step emits with it."""
    is_own = draft.step is not draft.stored
    name = "MTP layers" if is_own else f"{draft.step.name}, {units.count(draft.step.parameters)} parameters"
    size, tokens = units.size(serving.draft_bytes), plural(draft.tokens, "token")
    return (
        f"{name}, {size} of the weights of a GPU; {tokens} per step, each accepted with probability"
        f" {draft.acceptance:g}: {draft.tokens_per_step:.3g} tokens per step and sequence"
    )


def _stage(serving: Serving) -> str:
    return f" (stage {serving.memory.stage + 1} of {len(serving.gpus)})" if len(serving.gpus) > 1 else ""


def memory_parts(serving: Serving, gpu: GpuMemory) -> Iterator[tuple[str, int, ByteRange | None]]:
    """Name, expected bytes and range of each part of a GPU's memory, largest uses first."""
    yield "weights", gpu.weights_bytes, None
    if gpu.tower_bytes:
        yield "vision tower", gpu.tower_bytes, None
    if serving.is_local:
        cache = serving.sequence_bytes
        yield "key-value cache", cache, None
        taken = gpu.weights_bytes + gpu.tower_bytes + cache
        yield "runtime, system and free", max(gpu.total_bytes - taken, 0), None
        return
    yield "key-value cache", gpu.cache.expected, gpu.cache
    yield "activations", gpu.activations.expected, gpu.activations
    yield "CUDA graphs", gpu.graphs.expected, gpu.graphs
    yield "communication", gpu.communication.expected, gpu.communication
    yield "CUDA context", gpu.context.expected, gpu.context
    yield "driver", gpu.driver.expected, gpu.driver
    yield "not allocated", gpu.free_bytes, None


def memory_rows(serving: Serving) -> list[tuple[str, str, str, str]]:
    """The memory of the fullest GPU as rows of text."""
    gpu = serving.memory
    rows = []
    for name, size, interval in memory_parts(serving, gpu):
        if not size and name not in ("not allocated", "key-value cache"):
            continue
        spread = "" if interval is None else f"{units.size(interval.low)} - {units.size(interval.high)}"
        rows.append((units.size(size), f"{size / gpu.total_bytes:.1%}", spread, name))
    return [*rows, (units.size(gpu.total_bytes), "", "", f"total of {serving.cluster.device.name}")]


POINT_TITLES = ("sequences", "cache per GPU", "longest context", "fits")
"""Columns of the table of concurrencies."""


def point_rows(serving: Serving) -> list[tuple[str, ...]]:
    """One row of text per concurrency."""
    return [
        (f"{point.sequences:,}", units.size(point.cache_bytes), f"{point.max_context:,}", point.fits)
        for point in serving.points()
    ]


LAYOUT_TITLES = ("weights", "cache", "at most", "sent per step", "transfer", "fits", "layout")
"""Columns of the table of layouts; the third is the number of sequences."""


def layouts_caption(serving: Serving) -> str:
    """At which concurrency layouts are compared."""
    sequences = plural(max(serving.concurrency), "sequence")
    return f"layouts for {sequences} of {serving.context:,} tokens, per GPU"


def layout_rows(serving: Serving, top: int, by: str = "memory") -> list[tuple[str, ...]]:
    """The best layouts as rows of text, per GPU."""
    return [
        (
            units.size(row.weights_bytes),
            units.size(row.cache_bytes),
            f"{row.max_sequences:,}",
            units.size(int(row.link_bytes + row.network_bytes)),
            "unknown" if row.transfer_seconds is None else units.duration(row.transfer_seconds),
            row.fits,
            str(row.layout),
        )
        for row in serving.layouts(top, by)
    ]
