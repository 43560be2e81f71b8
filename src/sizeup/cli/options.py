"""Options that several commands share, and parsers for their values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sizeup.cli import completion

if TYPE_CHECKING:
    from sizeup.api.limits import WorkLimits

_TOOLS = ("fvcore", "thop", "ptflops", "ptflops-aten", "torchinfo", "dnn-analyzer", "tensorscope")
TIMED = ("ort", "litert", "litert-xnnpack", "tflm", "torch-eager")
"""The runtimes that `measure` can run a model in on this machine."""
MODEL_FORMS = (
    ".tflite, .onnx or .pt2 file, package.module:factory, torchvision:NAME, timm:NAME or hf:CONFIG.json"
)

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help=f"Model to read: {MODEL_FORMS}.", show_default=False)
]
Precision = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE|FILE",
        help="Precision to assume: fp32, fp16, int8, int4, ..., or a JSON precision map, e.g. int8 or"
        " mixed.json.",
        autocompletion=completion.precisions,
    ),
]


def device_option(help: str) -> Any:
    """The option -d for a target; `help` has an example."""
    return typer.Option(
        "--device",
        "-d",
        metavar="TARGET",
        help=help,
        autocompletion=completion.devices,
        show_default=False,
    )


Device = Annotated[
    str | None,
    device_option(
        "Target to estimate latency for: DEVICE, DEVICE/RUNTIME or a device file, e.g. rpi5/ort"
        " (sizeup devices lists all)."
    ),
]


class BasisName(str, Enum):
    """Latency models that can be asked for."""

    calibrated = "calibrated"
    instructions = "instructions"
    vela = "vela"
    roofline = "roofline"
    coefficients = "coefficients"


Basis = Annotated[
    BasisName | None,
    typer.Option(
        metavar="BASIS",
        help="Latency model: calibrated, instructions, vela, roofline or coefficients, e.g. roofline"
        " (default: the first that is available).",
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="[NAME:]SHAPE[:TYPE]",
        help="Shape of an input, e.g. x:1x3x224x224 or ids:1x128:int64; repeatable.",
    ),
]
Bind = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=SIZE", help="Size of a symbolic dimension, e.g. batch=1; repeatable."),
]
Rules = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Python file with your cost rules (@sizeup.op_rule), e.g. my_rules.py; repeatable.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Allow running a .pt2 file, which can execute any code it contains."),
]
Train = Annotated[
    bool,
    typer.Option(
        "--train",
        help="Record one forward of a PyTorch module in training mode, e.g. sizeup analyze"
        " torchvision:resnet18 --train (default: eval mode).",
    ),
]
Convention = Annotated[
    str | None,
    typer.Option(
        metavar="TOOL",
        help=f"Also show the counts of another tool: {', '.join(_TOOLS[:-1])} or {_TOOLS[-1]}, e.g. fvcore.",
        autocompletion=completion.one_of(*_TOOLS),
        show_default=False,
    ),
]
Plot = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Draw memory per operator as a .png or .svg file, e.g. memory.png; repeatable.",
    ),
]
RawCsv = Annotated[
    bool,
    typer.Option(
        "--raw-csv",
        help="Write CSV text unchanged (default: an apostrophe keeps spreadsheets from running formulas).",
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        min=0.0,
        metavar="S",
        help="End the work on a model after this many seconds, e.g. 60; 0: no limit.",
        show_default=False,
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help="End the work on a model that takes more memory, e.g. 4GiB; 0: no limit.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]

_SHAPE = re.compile(r"\d+(x\d+)*")


def work_limits(seconds: float | None, memory: str | None, default: WorkLimits) -> WorkLimits:
    """The limits of --time-limit and --memory-limit; `default` has those that are not given."""
    from sizeup.api.limits import WorkLimits
    from sizeup.targets import quantities

    if seconds is None and memory is None:
        return default
    size = default.memory_bytes
    if memory is not None:
        size = (
            0
            if memory == "0"
            else int(quantities.parse_limit(memory, quantities.SIZE, "--memory-limit") or 0)
        )
    limits = WorkLimits(default.seconds if seconds is None else seconds, size)
    limits.require_worker()
    return limits


def bindings(texts: Iterable[str] | None) -> dict[str, int] | None:
    """Sizes of symbolic dimensions, by name, from texts such as batch=1; None if there are none."""
    sizes = {}
    for text in texts or ():
        name, _, size = text.rpartition("=")
        if not name or not size.isdecimal():
            raise typer.BadParameter(f"{text!r} is not NAME=SIZE, e.g. batch=1", param_hint="--bind")
        sizes[name] = int(size)
    return sizes or None


def model_inputs(texts: Iterable[str] | None) -> dict[str, Any]:
    """The arguments `inputs` and `kwargs` of the API from texts such as x:1x3x224x224."""
    positional: list[Any] = []
    by_name: dict[str, Any] = {}
    for text in texts or ():
        name, value = _model_input(text)
        if name:
            by_name[name] = value
        else:
            positional.append(value)
    if positional:
        return {"inputs": tuple(positional), "kwargs": by_name or None}
    return {"inputs": by_name or None}


def _model_input(text: str) -> tuple[str, Any]:
    """The name, or '', and the shape, or shape and dtype; names may contain colons (`input:0`)."""
    from sizeup import dtypes

    rest, _, last = text.rpartition(":")
    dtype_name = dtypes.dtype_name(last) if dtypes.dtype_name(last) in dtypes.DTYPES else None
    name, _, shape = (rest if dtype_name else text).rpartition(":")
    if not _SHAPE.fullmatch(shape):
        detail = "" if dtype_name or _SHAPE.search(last) else f" ({last!r} is neither a shape nor a dtype)"
        raise typer.BadParameter(
            f"{text!r} is not [NAME:]SHAPE[:TYPE], e.g. x:1x3x224x224 or ids:1x128:int64{detail}",
            param_hint="--input",
        )
    sizes = tuple(int(size) for size in shape.split("x"))
    return name, (sizes, dtype_name) if dtype_name else sizes
