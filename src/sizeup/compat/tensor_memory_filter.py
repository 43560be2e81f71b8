"""`python -m sizeup.compat.tensor_memory_filter`: the number types at which each layer's tensors fit."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sizeup import units
from sizeup.compat import networks
from sizeup.dtypes import precision_name
from sizeup.files import write_text
from sizeup.graph import Graph
from sizeup.mixed_precision import LayerSizes, sizes
from sizeup.mixed_precision.sizes import DEFAULT_DTYPES

_PROGRAM = "tensor_memory_filter"
_KB = 1024
_UNITS = {"": 1, "b": 1, "kb": _KB, "kib": _KB, "mb": _KB**2, "mib": _KB**2}
_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_NAMES = tuple(map(precision_name, DEFAULT_DTYPES))


class Threshold(NamedTuple):
    """A number of bytes, and what it was written as."""

    bytes: int
    number: float
    unit: str

    @property
    def as_original(self) -> int:
        """Bytes as the original read them: its help said bytes, but it took a bare number for KB."""
        return self.bytes if self.unit else int(self.number * _KB)


def threshold(text: str) -> Threshold:
    """A threshold as the text of the tool documents it: bytes, or with a unit (512KB, 0.5MB; KB = 1024 B)."""
    match = _WRITTEN.fullmatch(text)
    if match is None or match[2].lower() not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 524288 (bytes), 512KB or 0.5MB")
    number = float(match[1])
    return Threshold(int(number * _UNITS[match[2].lower()]), number, match[2])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = networks.parser(
        "Which number types of each layer fit a threshold of memory.",
        width=1.0,
        input_size=84,
        output_file="tensor_analysis_results.json",
    )
    parser.add_argument(
        "--memory_threshold",
        nargs="+",
        default=["512KB"],
        help="largest tensor: bytes, or with a unit (512KB) (default: 512KB)",
    )
    arguments = parser.parse_args(argv)
    try:
        asked = threshold(" ".join(arguments.memory_threshold))
    except argparse.ArgumentTypeError as error:
        parser.error(f"argument --memory_threshold: {error}")
    return networks.ended(lambda: _run(arguments, asked), _PROGRAM)


def _run(arguments: argparse.Namespace, asked: Threshold) -> None:
    graph = networks.load(arguments)
    limit = asked.as_original if arguments.as_original else asked.bytes
    found = sizes(graph, limit, measure="tensors")
    shape = networks.input_shape(arguments)
    print(f"{networks.title(arguments)}, threshold {_kilobytes(limit)} ({limit:,} bytes)")
    for each in found:
        print("\n".join(_layer(graph, each, limit)))
    print(f"\n{_summary(found)}")
    if not asked.unit:
        print(_about_the_unit(graph, asked))
    content = {
        "model_type": arguments.model_type,
        "input_shape": list(shape),
        "memory_threshold_kb": limit / _KB,
        "filtered_precisions": {each.layer.name: list(each.fitting_precisions) for each in found},
    }
    write_text(arguments.output_file, [json.dumps(content, indent=4), "\n"])
    print(f"written to {arguments.output_file}")


def _layer(graph: Graph, each: LayerSizes, limit: int) -> Iterator[str]:
    op = graph.ops[each.layer.op]
    yield f"\n{each.layer.name}"
    sides = (("input", op.inputs[0], each.read_bytes), ("output", op.outputs[0], each.written_bytes))
    for side, tensor, taken in sides:
        listed = (
            f"{name} {_kilobytes(size)}{' (over)' if size > limit else ''}"
            for name, size in zip(_NAMES, taken, strict=True)
        )
        yield f"  {side:<7} {units.shape(graph.tensors[tensor].shape):<15} {', '.join(listed)}"
    if each.fitting_dtypes:
        yield f"  options {', '.join(each.fitting_precisions)}"
    else:
        yield f"  WARNING no number type fits {_kilobytes(limit)}"


def _kilobytes(size: int) -> str:
    return f"{size / _KB:.2f} KB"


def _summary(found: Sequence[LayerSizes]) -> str:
    """How many layers keep which types, those with most types first."""
    counts = Counter(each.fitting_precisions for each in found)
    lines = [f"{len(found)} layers:"]
    for kept, count in sorted(counts.items(), key=lambda item: -len(item[0])):
        lines.append(f"  {count:>3} keep {', '.join(kept) or 'none'}")
    return "\n".join(lines)


def _about_the_unit(graph: Graph, asked: Threshold) -> str:
    """What the original made of a number without a unit, beside what it means."""
    right, wrong = (_unlimited(graph, limit) for limit in (asked.bytes, asked.as_original))
    return (
        f"A number without a unit is bytes: at {_kilobytes(asked.bytes)} {right} layers keep all types."
        f" The original took {asked.number:g} for KB, at which {wrong} keep all (--as_original)."
    )


def _unlimited(graph: Graph, limit: int) -> int:
    """How many layers keep every type."""
    return sum(
        len(each.fitting_dtypes) == len(DEFAULT_DTYPES) for each in sizes(graph, limit, measure="tensors")
    )


if __name__ == "__main__":
    sys.exit(main())
