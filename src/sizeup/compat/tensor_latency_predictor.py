"""`python -m sizeup.compat.tensor_latency_predictor`: milliseconds by layer, from a table of coefficients."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sizeup
from sizeup import units
from sizeup.compat import networks
from sizeup.cost import Cost
from sizeup.dtypes import precision, precision_name
from sizeup.files import write_text
from sizeup.latency import layer_times, read_table
from sizeup.latency.coefficients import DEFAULT, Table
from sizeup.mixed_precision import layers, match_layers
from sizeup.mixed_precision.precision_map import read_precision_map
from sizeup.mixed_precision.sizes import DEFAULT_DTYPES

_PROGRAM = "tensor_latency_predictor"
_KNOWN = tuple(map(precision_name, DEFAULT_DTYPES))
_FALLBACK = "fp32"
# The tool's names of the rows of the table.
_TYPES = {"conv": "Conv", "depthwise": "DWConv", "linear": "Linear"}
_NANOSECONDS = 1e6
"""In a millisecond."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer as the tool's JSON holds it; `mmacs` are single MACs, whatever the name says."""

    layer_type: str
    input_shape: list[int]
    output_shape: list[int]
    mmacs: int
    precision: str
    latency_ns: float
    latency_ms: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = networks.parser(
        "Milliseconds of every layer: MACs / 2,000,000 x the coefficient of its type and number type.",
        width=0.5,
        input_size=112,
        output_file="latency_analysis_results.json",
    )
    parser.add_argument("--precision_mapping_file", type=Path, help='JSON such as {"features.0.0": "int8"}')
    parser.add_argument(
        "--coefficients_file", type=Path, help="JSON or TOML that replaces the table of coefficients"
    )
    arguments = parser.parse_args(argv)
    return networks.ended(lambda: _run(arguments), _PROGRAM)


def _run(arguments: argparse.Namespace) -> None:
    mapping = read_precision_map(arguments.precision_mapping_file) if arguments.precision_mapping_file else {}
    table = read_table(arguments.coefficients_file) if arguments.coefficients_file else DEFAULT
    cost = sizeup.count(networks.load(arguments))
    chosen = _precisions(cost, mapping)
    right = _predicted(cost, chosen, table)
    original = _predicted(cost, chosen, table, batch=arguments.batch_size)
    found = original if arguments.as_original else right
    shape = networks.input_shape(arguments)
    print(f"{networks.title(arguments)}\n")
    print("\n".join(_report(found)))
    if arguments.batch_size > 1:
        print(_about_the_batch(right, original))
    content = _content(shape, mapping, found)
    if arguments.as_original:
        content["convention"] = "as the original: a larger batch scales only Linear layers"
    write_text(arguments.output_file, [json.dumps(content, indent=2), "\n"], check=read_precision_map)
    print(f"written to {arguments.output_file}")


def _precisions(cost: Cost, mapping: Mapping[str, str]) -> dict[int, str]:
    """The number type of every layer; complaints about names and types that mean nothing go to stderr."""
    for name, wanted in mapping.items():
        if wanted not in _KNOWN:
            _warn(f"{name}: unknown precision {wanted!r}, {_FALLBACK} instead; known are {', '.join(_KNOWN)}")
    cleaned = {name: wanted if wanted in _KNOWN else _FALLBACK for name, wanted in mapping.items()}
    found = {layer.op: _FALLBACK for layer in layers(cost.graph)}
    named = match_layers(cost.graph, cleaned).dtypes
    for name in cleaned:
        near = match_layers(cost.graph, {name: _FALLBACK})
        if not near.dtypes.keys() & found.keys():
            hints = ", ".join(near.unmatched.get(name, ()))
            _warn(f"no layer is called {name!r}{f'; nearest: {hints}' if hints else ''}")
    return {op: precision_name(named[op]) if op in named else kept for op, kept in found.items()}


def _warn(text: str) -> None:
    print(f"{_PROGRAM}: warning: {text}", file=sys.stderr)


def _predicted(cost: Cost, chosen: Mapping[int, str], table: Table, batch: int = 1) -> dict[str, _Layer]:
    """Every layer at its number type.

    The original's convention, where `batch` is more than 1: it counted convolutions for one image whatever
    the batch, and only Linear layers for all.
    """
    graph = cost.graph
    wanted = [precision(chosen.get(index, _FALLBACK)) for index in range(len(graph.ops))]
    times = layer_times(cost, wanted, table)
    found = {}
    for layer in layers(graph):
        op, kind = graph.ops[layer.op], times.layers[layer.op]
        images = batch if kind != "linear" else 1
        milliseconds = float(times.milliseconds[layer.op]) / images
        found[layer.name] = _Layer(
            _TYPES[kind],
            list(graph.tensors[op.inputs[0]].shape or ()),
            list(graph.tensors[op.outputs[0]].shape or ()),
            int(cost.macs[layer.op]) // images,
            chosen[layer.op],
            milliseconds * _NANOSECONDS,
            milliseconds,
        )
    return found


def _milliseconds(found: Mapping[str, _Layer]) -> float:
    return math.fsum(each.latency_ms for each in found.values())


def _by_precision(found: Mapping[str, _Layer]) -> dict[str, dict[str, float]]:
    stats = {}
    for name in dict.fromkeys(each.precision for each in found.values()):
        part = {key: each for key, each in found.items() if each.precision == name}
        total = _milliseconds(part)
        stats[name] = {"count": len(part), "latency_ns": total * _NANOSECONDS, "latency_ms": total}
    return stats


def _content(shape: Sequence[int], mapping: Mapping[str, str], found: Mapping[str, _Layer]) -> dict[str, Any]:
    total = _milliseconds(found)
    return {
        "input_shape": list(shape),
        "precision_mapping": dict(mapping),
        "total_latency": {"latency_ns": total * _NANOSECONDS, "latency_ms": total},
        "precision_stats": _by_precision(found),
        "layer_details": {name: asdict(each) for name, each in found.items()},
    }


def _report(found: Mapping[str, _Layer]) -> Iterator[str]:
    """A line a layer, the totals, and how the number types are distributed."""
    wide = max(map(len, found), default=0)
    yield (
        f"{'layer':<{wide}}  {'type':<6}  {'input':<15}  {'output':<15}  {'MMACs':>10}  precision  {'ms':>10}"
    )
    for name, each in found.items():
        shapes = [units.shape(tuple(shape)) for shape in (each.input_shape, each.output_shape)]
        yield (
            f"{name:<{wide}}  {each.layer_type:<6}  {shapes[0]:<15}  {shapes[1]:<15}"
            f"  {each.mmacs / 1e6:>10.4f}  {each.precision:<9}  {each.latency_ms:>10.4f}"
        )
    macs, total = sum(each.mmacs for each in found.values()), _milliseconds(found)
    yield f"\ntotal MMACs    {macs / 1e6:.4f} ({macs:,} MACs; mmacs in the JSON are single MACs)"
    yield f"total latency  {total:.4f} ms ({total * _NANOSECONDS:.0f} ns)"
    yield "precision distribution"
    for name, stats in _by_precision(found).items():
        yield f"  {name:<4}  {stats['count']:>3} layers  {stats['latency_ms']:.4f} ms"


def _about_the_batch(right: Mapping[str, _Layer], original: Mapping[str, _Layer]) -> str:
    return (
        f"for the whole batch {_milliseconds(right):.4f} ms; the original, which scaled only Linear layers,"
        f" gave {_milliseconds(original):.4f} ms (--as_original)"
    )


if __name__ == "__main__":
    sys.exit(main())
