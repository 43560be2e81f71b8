"""Closed forms of single kernels of language models, by shape, which `serving_kernels.py` fits.

Each form has 9 to 13 numbers per device, engine, dtype and, for attention, kernel:

    product    floor + ((waves x (tile + max(MACs, loads)) + outputs + split)^q + (bytes / bandwidth)^q)^(1/q)
    experts    floor + ((waves x max(MACs, loads))^q + (touched weights / bandwidth)^q)^(1/q) + activations
    attention  floor + ((waves x (tile + loads + MACs) + combination)^q + (cache / bandwidth)^q)^(1/q)
    all-reduce least of latency + bytes / link: one step, two steps, ring, switch

Attention is that of decode. A wave is as many tiles as the device has multiprocessors; the tiling is the
fastest of a few. `arithmetic`, `bandwidth`, `quantization`, `activations`, `routing`, `one_shot`, `two_shot`
and `multicast` are efficiencies in (0, 1]. `loads` and `outputs` are factors of the memory bandwidth (of the
link in all-reduces), which caches exceed. `sharpness` and `throttle` are curves: how sharp the maximum is,
and how much slower long products are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

TILES: Mapping[str, tuple[tuple[tuple[int, int], ...], tuple[int, ...]]] = {
    "any": (((64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 128)), (1, 2, 4, 8, 16)),
    "128": (((64, 128), (128, 128)), (1,)),
    "256": (((64, 128), (128, 256)), (1,)),
}
"""Rows and columns of tiles that a kernel has, and into how many parts it splits the inner dimension."""
ELEMENTS: Mapping[str, tuple[str, float]] = {
    "bf16": ("bf16", 2.0), "fp8": ("fp8", 1.0), "fp8_block": ("fp8_block", 1.0), "fp4": ("fp4", 0.5625),
    "mxfp4": ("bf16", 0.53125), "mxfp4_mxfp8": ("fp8", 0.53125),
}  # fmt: skip
"""The dtype of the arithmetic and the bytes of a weight, by the dtype of a form."""
ATTENTION_TILES = ((64, 1, 7), (128, 1, 7), (128, 2, 7), (16, 2, 7), (16, 2, 3), (64, 2, 3))
"""Tokens of a tile, thread blocks on a multiprocessor, and how often a cache is halved at most."""
_EXPERT_ROWS, _EXPERT_COLUMNS = (16, 64, 128), 128
_LONG_SECONDS = 5e-4  # at data-sheet arithmetic, beyond which a product is throttled
_CACHED_SHARE = 0.8  # of bytes that need no memory traffic if the last repeat left them in the L2 cache


class Chip(NamedTuple):
    """What forms are relative to."""

    multiprocessors: int
    bandwidth: float
    macs_per_second: float  # at the dtype of the arithmetic
    l2_bytes: float


@dataclass(frozen=True, slots=True)
class GemmForm:
    """Numbers of matrix products in one dtype."""

    floor: float  # seconds
    tile: float  # seconds per wave
    arithmetic: float
    bandwidth: float
    loads: float
    sharpness: float
    split: float  # seconds, if the inner dimension is split
    outputs: float
    throttle: float
    weight_cache: float  # share of the L2 cache below which repeats find weights in it
    activation_cache: float
    quantization: float = 1.0  # share of bandwidth when activations are quantized
    row: float = 0.0  # seconds per quantized row


@dataclass(frozen=True, slots=True)
class ExpertForm:
    """Numbers of the routed experts of a layer in one dtype."""

    floor: float  # seconds
    expert: float  # seconds per expert of the layer
    arithmetic: float
    bandwidth: float
    sharpness: float
    loads: float
    activations: float
    routing: float  # tokens that touch as many experts under uniform routing, per token
    imbalance: float  # further load of the busiest of many groups of experts
    row: float  # seconds per token


class Shapes(NamedTuple):
    """Matrix products as times at data-sheet rates; leading axis: the tilings of a kernel."""

    waves: Floats
    macs: Floats  # of one wave
    loads: Floats  # of one wave
    outputs: Floats
    is_split: Floats
    split_bytes: Floats
    whole: Floats  # MACs of the product
    weight_bytes: Floats
    activation_bytes: Floats
    quantized_bytes: Floats  # 0 if activations stay in 16 bits
    rows: Floats


def shapes(chip: Chip, tiles: str, m: Floats, n: Floats, k: Floats, element_bytes: float) -> Shapes:
    """Products of (m, k) and (k, n) arrays; outputs have 16 bits."""
    columns = []
    sizes, parts = TILES[tiles]
    per_tile = chip.bandwidth / chip.multiprocessors
    for height, width in sizes:
        rows = np.minimum(height, 2 ** np.ceil(np.log2(np.maximum(m, 16))))
        for split in parts:
            waves = np.ceil(np.ceil(m / height) * np.ceil(n / width) * split / chip.multiprocessors)
            depth = np.ceil(k / split / 64) * 64
            columns.append(
                (
                    waves,
                    rows * width * depth * chip.multiprocessors / chip.macs_per_second,
                    (rows + width) * depth * element_bytes / per_tile,
                    waves * rows * width * 2 / per_tile,
                    np.full_like(waves, split > 1),
                    (split - 1) * m * n * 8 / chip.bandwidth,
                )
            )
    waves, macs, loads, outputs, is_split, split_bytes = (
        np.stack([column[index] for column in columns]) for index in range(6)
    )
    quantized = m * k * (2 + element_bytes) if element_bytes < 2 else np.zeros_like(m)
    activations = element_bytes * m * k + 2 * m * n
    whole = m * n * k / chip.macs_per_second
    return Shapes(
        waves, macs, loads, outputs, is_split, split_bytes,
        whole, element_bytes * n * k, activations, quantized, m * (element_bytes < 2),
    )  # fmt: skip


def gemm_seconds(form: GemmForm, chip: Chip, shapes: Shapes) -> Floats:
    """Seconds of repeated products, which find small matrices in the L2 cache."""
    slower = 1 + form.throttle * shapes.whole / (shapes.whole + _LONG_SECONDS)
    wave = form.tile + np.maximum(shapes.macs * (slower / form.arithmetic), shapes.loads / form.loads)
    body = shapes.waves * wave + shapes.outputs / form.outputs
    body = body + shapes.is_split * form.split + shapes.split_bytes / form.loads
    weights = _missed(shapes.weight_bytes, form.weight_cache * chip.l2_bytes)
    activations = _missed(shapes.activation_bytes, form.activation_cache * chip.l2_bytes)
    quantized = _missed(shapes.quantized_bytes, form.activation_cache * chip.l2_bytes)
    memory = (weights + activations) / (chip.bandwidth * form.bandwidth)
    quantization = quantized / (chip.bandwidth * form.quantization) + shapes.rows * form.row
    return form.floor + _soft_maximum(body.min(axis=0), memory, form.sharpness) + quantization


def _missed(size: Floats, cache: float) -> Floats:
    """Bytes that are read from memory."""
    missed: Floats = size * (1 - _CACHED_SHARE / (1 + (size / cache) ** 4))
    return missed


def _soft_maximum(one: Floats, other: Floats, sharpness: float) -> Floats:
    result: Floats = (one**sharpness + other**sharpness) ** (1 / sharpness)
    return result


class RoutedExperts(NamedTuple):
    """The routed experts of a layer on one device; fields may be arrays."""

    hidden: Floats
    intermediate: Floats  # of one expert, on one device
    per_token: Floats
    count: Floats  # of the layer
    groups: Floats  # of devices, by which experts are divided
    weight_bytes: Floats  # of one expert, on one device


def expert_seconds(
    form: ExpertForm,
    chip: Chip,
    layer: RoutedExperts,
    tokens: Floats,
    element_bytes: float,
    is_balanced: npt.NDArray[np.bool_],
) -> Floats:
    """Seconds of routed experts for the tokens of all devices; `is_balanced` spreads tokens evenly."""
    here = layer.count / layer.groups
    missed = np.log1p(-np.minimum(layer.per_token / layer.count, 1 - 1e-9))
    random = here * -np.expm1(tokens * form.routing * missed)
    spread = np.minimum(layer.count, tokens * layer.per_token) / layer.groups
    touched = np.maximum(np.where(is_balanced, spread, random), np.minimum(1.0, here))
    skew = np.where(is_balanced, 0.0, form.imbalance) * (1 - 1 / layer.groups)
    load = tokens * layer.per_token / layer.groups * (1 + skew)
    rows = np.maximum(load / touched, 1.0)
    columns, body = np.ceil(3 * layer.intermediate / _EXPERT_COLUMNS), None
    for height in _EXPERT_ROWS:
        waves = np.ceil(touched * np.ceil(rows / height) * columns / chip.multiprocessors)
        macs = height * _EXPERT_COLUMNS * layer.hidden / (chip.macs_per_second * form.arithmetic)
        read = (height + _EXPERT_COLUMNS) * layer.hidden * element_bytes / (chip.bandwidth * form.loads)
        whole = waves * np.maximum(macs, read) * chip.multiprocessors
        body = whole if body is None else np.minimum(body, whole)
    assert body is not None
    memory = touched * layer.weight_bytes / (chip.bandwidth * form.bandwidth)
    moved = load * (4 * layer.hidden + 6 * layer.intermediate) + 2 * tokens * layer.hidden
    fixed = form.floor + layer.count * form.expert + tokens * form.row
    moves = moved / (chip.bandwidth * form.activations)
    result: Floats = fixed + _soft_maximum(body, memory, form.sharpness) + moves
    return result


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """Numbers of a kernel for attention of one token per sequence to its cache."""

    floor: float  # seconds
    tile: float  # seconds per wave
    bandwidth: float
    sharpness: float
    loads: float
    combination: float  # seconds per doubling of the parts into which a cache is split
    weight_cache: float  # share of the L2 cache below which repeats find the key-value cache in it
    arithmetic: float
    row: float  # seconds per sequence


class DecodeAttention(NamedTuple):
    """Attention of one token per sequence."""

    sequences: Floats
    query_heads: Floats
    kv_heads: Floats
    head_size: Floats
    context: Floats  # tokens that are read
    is_cut: Floats  # 1 if a window begins within a tile, else 0
    blocks: Floats  # thread blocks per sequence: key-value heads, or query heads that share no loads


def attention_seconds(
    form: AttentionForm, chip: Chip, tiles: tuple[int, int, int], shape: DecodeAttention, element_bytes: float
) -> Floats:
    """Seconds of attention in decode; a thread block takes a part of the cache of its head."""
    sequences, heads, groups, size, context, is_cut, blocks = shape
    length, blocks_at_once, halvings = tiles
    cached = 2 * sequences * groups * size * context * element_bytes
    parts = 2.0 ** np.arange(halvings + 1)[:, None]
    at_once = blocks_at_once * chip.multiprocessors
    waves = np.ceil(sequences * blocks * parts / at_once)
    tokens = (np.ceil(context / parts / length) + is_cut) * length
    read = 2 * tokens * size * element_bytes * at_once / (chip.bandwidth * form.loads)
    macs = 2 * heads / blocks * size * tokens * at_once / (chip.macs_per_second * form.arithmetic)
    body = waves * (form.tile + read + macs) + (parts > 1) * form.combination * np.log2(parts + 1)
    memory = _missed(cached, form.weight_cache * chip.l2_bytes) / (chip.bandwidth * form.bandwidth)
    queries = 6 * sequences * heads * size / (chip.bandwidth * form.bandwidth)
    return (
        form.floor + _soft_maximum(body.min(axis=0), memory, form.sharpness) + queries + sequences * form.row
    )


@dataclass(frozen=True, slots=True)
class CollectiveForm:
    """Numbers of an all-reduce within a node."""

    floor: float  # seconds
    growth: float  # of the floor, as a power of the devices
    one_shot: float  # share of the link's bandwidth if every device reads all others
    step: float  # seconds, of the second step if each reduces a part
    two_shot: float
    start: float  # seconds, of the library that sends large messages
    bandwidth: float
    loads: float  # copies at each end, as a factor of the link's bandwidth
    multicast: float  # share of the link's bandwidth if the switch reduces


def collective_seconds(
    form: CollectiveForm, link: float, largest: float, sent: Floats, devices: Floats
) -> Floats:
    """Seconds of an all-reduce by the fastest algorithm; those of the engine send up to `largest` bytes."""
    share = 2 * (devices - 1) / devices
    floor, whole = form.floor * devices**form.growth, sent / link
    one_shot = floor + (devices - 1) * whole / form.one_shot
    two_shot = floor + form.step + share * whole / form.two_shot
    ring = share * whole / form.bandwidth + whole / form.loads
    library = form.start + np.minimum(ring, (1 + 1 / devices) * whole / form.multicast)
    engine = np.where(sent <= largest, np.minimum(one_shot, two_shot), np.inf)
    return np.minimum(engine, library)
