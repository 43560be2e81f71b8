"""The networks that the two tensor tools knew, and the arguments by which they were named."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import sizeup
from sizeup import units
from sizeup.errors import SizeupError
from sizeup.formats.torch import network
from sizeup.graph import Graph
from sizeup.render.console.pipes import leaving_quietly

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
