"""Times of one sequence on laptops and phones, linear in what a token needs.

    next token:  bytes of weights by precision, bytes of the cache, layers, 1
    first token: MACs of weights, MACs of attention and head, bytes of weights by precision, layers, 1

Each is multiplied by a number of seconds that is fitted per device (`next_tokens.toml`). A runtime with
`chunk` processes a prompt in steps of that many tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sizeup import units
from sizeup.serving.models.architecture import Architecture, Weight, distinct
from sizeup.serving.models.cache import body_macs, prefill_macs, sequence_cost
from sizeup.serving.steps.rates import Calibration, TokenRates

_FLOATS = ("bf16", "fp16")
_BEYOND = 1.25  # of the least and most in the measurements, where their interval is assumed to hold
PRECISIONS = ("int4", "int8", "fp16")
"""Precisions of weights among the measurements."""
CAUSES = {
    **dict.fromkeys(PRECISIONS, "weights"),
    "cache": "cache",
    "layers": "kernels",
    "constant": "overhead",
}
"""The cause of the time of each column of a next token."""


def next_columns(architecture: Architecture, kv: str, context: int) -> dict[str, float]:
    """What one token needs after a number of others."""
    cache = sequence_cost(architecture, kv).bytes_of(context)
    return {**_bytes_read(architecture), "cache": cache, **_floors(architecture)}


def first_columns(architecture: Architecture, tokens: int, chunk: int = 0) -> dict[str, float]:
    """What a prompt needs."""
    steps = -(-tokens // chunk) if chunk else 1
    tokens = steps * chunk or tokens
    macs = tokens * body_macs(architecture)
    once = {**_bytes_read(architecture), **_floors(architecture)}
    return {
        "macs": macs,
        "attention": prefill_macs(architecture, tokens) - macs,
        **{name: steps * value for name, value in once.items()},
    }


def seconds(columns: Mapping[str, float], numbers: Mapping[str, float]) -> float:
    """The time of what a token needs."""
    return sum(numbers.get(name, 0.0) * value for name, value in columns.items())


def unmeasured(architecture: Architecture, calibration: Calibration | None, device: str) -> str:
    """Why no time is known; empty if one is."""
    if calibration is None or device not in calibration.tokens:
        return f"no language model was measured on {device}"
    if architecture.expert_count:
        return "mixtures of experts are not among the measurements"
    kinds = {layer.attention.kind for layer in architecture.layers} - {"full", "window"}
    if kinds:
        return f"layers with {' and '.join(sorted(kinds))} attention are not among the measurements"
    names = {weight.precision for weight, _ in _body(architecture)}
    others = sorted(name for name in names if _class(name) not in calibration.precisions)
    *most, last = calibration.precisions
    known = " or ".join(filter(None, (", ".join(most), last)))
    return (
        f"weights in {', '.join(others)} are not among the measurements; give --weights {known}"
        if others
        else ""
    )


def unmeasured_size(architecture: Architecture, rates: TokenRates) -> Iterator[str]:
    """Models that are smaller or larger than those of the measurements, by the weights that a token reads."""
    read = sum(_bytes_read(architecture).values())
    if read < rates.least_bytes / _BEYOND:
        yield f"models that read less than {units.size(rates.least_bytes)} of weights per token"
    if read > rates.most_bytes * _BEYOND:
        yield f"models that read more than {units.size(rates.most_bytes)} of weights per token"


def unmeasured_prompt(rates: TokenRates, input: int, chunk: int) -> Iterator[str]:
    """Prompts that are shorter or longer than those of the measurements; a chunk is never shorter."""
    if input < rates.least_tokens and not chunk:
        yield f"prompts of less than {rates.least_tokens:,} tokens"
    if input > rates.most_tokens:
        yield f"prompts of more than {rates.most_tokens:,} tokens"


def unmeasured_context(rates: TokenRates, context: int, chunk: int) -> Iterator[str]:
    """Contexts of a next token that are longer than those of the measurements.

    Next tokens follow the prompts of the measurements; runtimes with chunks read the cache of all tokens of
    the context that was measured.
    """
    if context > rates.most_tokens * (1 if chunk else _BEYOND):
        yield f"contexts of more than {rates.most_tokens:,} tokens"


def _bytes_read(architecture: Architecture) -> dict[str, float]:
    """Bytes of the matrices that every token reads, by precision; a tied head is the embedding."""
    read = dict.fromkeys(PRECISIONS, 0.0)
    for weight, layers in _body(architecture):
        read[_precision(weight)] += layers * weight.stored_bytes
    for weight in architecture.embedding if architecture.tied_head else _matrices(architecture.head):
        read[_precision(weight)] += weight.stored_bytes
    return read


def _floors(architecture: Architecture) -> dict[str, float]:
    return {"layers": len(architecture.layers), "constant": 1.0}


def _body(architecture: Architecture) -> Iterator[tuple[Weight, int]]:
    """The matrices of all layers, each with the number of layers that have it."""
    for layer, count in distinct(architecture.layers):
        for weight in _matrices(layer.weights):
            yield weight, count


def _matrices(weights: tuple[Weight, ...]) -> Iterator[Weight]:
    return (weight for weight in weights if weight.macs)


def _precision(weight: Weight) -> str:
    return _class(weight.precision)


def _class(precision: str) -> str:
    if precision in _FLOATS:
        return "fp16"
    return {"int8": "int8", "int4 in groups of 128": "int4"}.get(precision, precision)
