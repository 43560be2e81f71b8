"""Options that several verbs share, and how their texts are read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from sizeup.cli import completion

_TOOLS = ("fvcore", "thop", "ptflops", "ptflops-aten", "torchinfo", "dnn-analyzer", "tensorscope")
TIMED = ("ort", "litert", "litert-xnnpack", "tflm", "torch-eager")
"""The runtimes that a model can be timed in on this machine."""

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A .tflite, .onnx or .pt2 file, package.module:factory, torchvision:NAME, timm:NAME"
        " or hf:CONFIG.json.",
        show_default=False,
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE|FILE",
        help="Price bytes at fp32, fp16, int8, int4, ... or layer by layer as a .json file maps them.",
        autocompletion=completion.precisions,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        "-d",
        metavar="TARGET",
        help="Estimate latency there: DEVICE or DEVICE/RUNTIME, as rpi5/ort (sizeup devices lists all),"
        " or a device file.",
        autocompletion=completion.devices,
        show_default=False,
    ),
]


class BasisOf(str, Enum):
    """What an estimate of latency rests on."""

    calibrated = "calibrated"
    roofline = "roofline"
    coefficients = "coefficients"


Basis = Annotated[
    BasisOf | None,
    typer.Option(help="What the latency rests on; by default measurements, else the data sheet."),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input", metavar="[NAME:]SHAPE[:TYPE]", help="An input, as x:1x3x224x224 or ids:1x128:int64."
    ),
]
Bind = Annotated[
    list[str] | None, typer.Option(metavar="NAME=SIZE", help="Size of a free dimension, as batch=1.")
]
Rules = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="A Python file with rules of your own (@sizeup.op_rule)."),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Run a .pt2 file, which can run any code that it holds."),
]
Convention = Annotated[
    str | None,
    typer.Option(
        metavar="TOOL",
        help=f"Also count as {', '.join(_TOOLS[:-1])} or {_TOOLS[-1]} do.",
        autocompletion=completion.one_of(*_TOOLS),
        show_default=False,
    ),
]
Plot = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Draw memory by operator as a .png or .svg file; repeatable."),
]

RawCsv = Annotated[
    bool,
    typer.Option(
        "--raw-csv", help="Write CSV texts as they are; by default an apostrophe keeps formulas from running."
    ),
]

_SHAPE = re.compile(r"\d+(x\d+)*")


def bindings(texts: Iterable[str] | None) -> dict[str, int] | None:
    """Sizes of free dimensions from texts such as batch=1."""
    bound = {}
    for text in texts or ():
        name, _, size = text.rpartition("=")
        if not name or not size.isdecimal():
            raise typer.BadParameter(f"{text!r} is not NAME=SIZE, such as batch=1", param_hint="--bind")
        bound[name] = int(size)
    return bound or None


def model_inputs(texts: Iterable[str] | None) -> dict[str, Any]:
    """The arguments `inputs` and `kwargs` from texts such as x:1x3x224x224: positional, by name, or both."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in texts or ():
        name, value = _model_input(text)
        if name:
            named[name] = value
        else:
            positional.append(value)
    if positional:
        return {"inputs": tuple(positional), "kwargs": named or None}
    return {"inputs": named or None}


def _model_input(text: str) -> tuple[str, Any]:
    """A name, or '', and a shape, or a shape with a type; names may hold colons (`input:0`)."""
    from sizeup.dtypes import DTYPES

    rest, _, last = text.rpartition(":")
    type_name = last if last in DTYPES else None
    name, _, shape = (rest if type_name else text).rpartition(":")
    if not _SHAPE.fullmatch(shape):
        known = (
            "" if type_name or _SHAPE.search(last) else f" ({last!r} is neither a shape nor a number type)"
        )
        raise typer.BadParameter(
            f"{text!r} is not [NAME:]SHAPE[:TYPE], such as x:1x3x224x224 or ids:1x128:int64{known}",
            param_hint="--input",
        )
    sizes = tuple(int(size) for size in shape.split("x"))
    return name, (sizes, type_name) if type_name else sizes
