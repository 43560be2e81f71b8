"""The networks, arguments and printed layouts of the two tensor tools."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sizeup
from sizeup import units
from sizeup.errors import SizeupError
from sizeup.formats.torch import network
from sizeup.graph import Graph
from sizeup.render.console.layout import leaving_quietly
from sizeup.units import printable

CLASSES = 100
"""Both tools analysed networks for a hundred classes."""
_VERSIONS = tuple(f"b{number}" for number in range(8))
_BAD_INPUT = 2


def parser(description: str, *, width: float, input_size: int, output_file: str) -> argparse.ArgumentParser:
    """The arguments that both tools share; only the defaults and the width of MobileNetV2 differ."""
    made = argparse.ArgumentParser(description=description)
    made.set_defaults(width=width)
    made.add_argument(
        "--model_type",
        required=True,
        choices=("mobilenetv2", "mobilenetv3", "efficientnet"),
        help=f"network; mobilenetv2 has width {width}",
    )
    made.add_argument("--batch_size", type=_positive, default=1, help="images at once (default: 1)")
    made.add_argument(
        "--input_size", type=_positive, default=input_size, help=f"pixels a side (default: {input_size})"
    )
    made.add_argument("--output_file", default=output_file, help=f"JSON to write (default: {output_file})")
    made.add_argument("--mode", choices=("small", "large"), default="small", help="which MobileNetV3")
    made.add_argument("--model_version", choices=_VERSIONS, default="b0", help="which EfficientNet")
    made.add_argument(
        "--as_original", action="store_true", help="give the original's numbers where they were wrong"
    )
    return made


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def input_shape(arguments: argparse.Namespace) -> tuple[int, int, int, int]:
    """Images as PyTorch lays them out."""
    return (arguments.batch_size, 3, arguments.input_size, arguments.input_size)


def title(arguments: argparse.Namespace) -> str:
    """Which network the results are of."""
    width = f"width {arguments.width}, " if arguments.model_type == "mobilenetv2" else ""
    return f"{arguments.model_type} ({width}{CLASSES} classes) at {units.shape(input_shape(arguments))}"


def load(arguments: argparse.Namespace) -> Graph:
    """The graph of the network that the arguments name.

    The convention of both tools: the width scales the channels of MobileNetV2 as they are, where its authors
    round them to multiples of 8 (at 0.5: 12 channels instead of 16).
    """
    if arguments.model_type == "mobilenetv2":
        module = network("mobilenet_v2", classes=CLASSES, width=arguments.width, divisor=1)
    elif arguments.model_type == "mobilenetv3":
        module = network(f"mobilenet_v3_{arguments.mode}", classes=CLASSES)
    else:
        module = network(f"efficientnet_{arguments.model_version}", classes=CLASSES)
    return sizeup.load(module, inputs=(input_shape(arguments),))


def ended(run: Callable[[], None], program: str) -> int:
    """The exit code of a command: what we raise on purpose becomes one line on stderr."""
    try:
        with leaving_quietly():
            run()
    except SizeupError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return _BAD_INPUT
    return 0


Rows = Iterable[Sequence[Any]]
_ROOM = 2  # that a column leaves beside its header


def ruled(headers: Sequence[str], rows: Rows) -> str:
    """A table in the manner of psql: a frame, a line below the headers, decimal points below each other."""
    columns = _columns(headers, rows)
    lines = ["| " + " | ".join(cells) + " |" for cells in zip(*columns, strict=True)]
    dashes = ["-" * (len(column[0]) + 2) for column in columns]
    frame = f"+{'+'.join(dashes)}+"
    return "\n".join([frame, lines[0], f"|{'+'.join(dashes)}|", *lines[1:], frame])


def simple(headers: Sequence[str], rows: Rows) -> str:
    """A table without a frame: a line of dashes below the headers, two spaces between columns."""
    columns = _columns(headers, rows)
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return "\n".join([lines[0], "  ".join("-" * len(column[0]) for column in columns), *lines[1:]])


def centred(headers: Sequence[str], rows: Rows, right: Sequence[str] = ()) -> str:
    """A framed table of centred texts, but for the columns that are to stand on the right."""
    cells = [list(headers), *([printable(str(value)) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    frame = f"+{'+'.join('-' * (width + 2) for width in widths)}+"
    lines = []
    for place, row in enumerate(cells):
        texts = [
            text.rjust(width) if place and header in right else _centre(text, width)
            for text, width, header in zip(row, widths, headers, strict=True)
        ]
        lines.append(f"| {' | '.join(texts)} |")
    return "\n".join([frame, lines[0], frame, *lines[1:], frame])


def _centre(text: str, width: int) -> str:
    """In the middle; where that is between two places, a text of odd length goes left, others right."""
    left, odd = divmod(width - len(text), 2)
    left += odd and len(text) % 2 == 0
    return (" " * left + text).ljust(width)


def _columns(headers: Sequence[str], rows: Rows) -> list[list[str]]:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in headers]
    return [_column(header, column) for header, column in zip(headers, columns, strict=True)]


def _column(header: str, values: Sequence[Any]) -> list[str]:
    numbers = bool(values) and all(isinstance(value, int | float) for value in values)
    if not numbers:
        cells = [printable(str(value)) for value in values]
        width = max([len(header) + _ROOM, *map(len, cells)])
        return [text.ljust(width) for text in (header, *cells)]
    floating = any(isinstance(value, float) for value in values)
    cells = _on_the_point([f"{value:g}" if floating else str(value) for value in values])
    width = max(len(header) + _ROOM, *map(len, cells))
    return [text.rjust(width) for text in (header, *cells)]


def _on_the_point(texts: Sequence[str]) -> list[str]:
    """Numbers padded on their right, so that decimal points meet; with an exponent, that counts as more."""
    after = [len(text) - at - 1 if (at := _point(text)) >= 0 else -1 for text in texts]
    most = max(after)
    return [text + " " * (most - each) for text, each in zip(texts, after, strict=True)]


def _point(text: str) -> int:
    found = text.rfind(".")
    return text.rfind("e") if found < 0 else found
