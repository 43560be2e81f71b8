"""Instructions that TFLite Micro executes per operator on Arm Cortex-M cores.

A formula per kernel library, vector instructions and kernel variant (operator, dtypes, code path): a sum of
coefficients times sizes of the operator, such as `macs` or `results`. `tools/fitting/instructions.py` fits
them to instruction counts of emulated cores and writes instructions.toml.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from sizeup.backends.tflm.kernel import Call, CountedBy, Window, elements_of, shape_of, window_of
from sizeup.backends.tflm.kernels import KERNELS
from sizeup.backends.tflm.kernels.product_requests import runs_as_convolution
from sizeup.backends.tflm.layout import Build
from sizeup.errors import Incomplete
from sizeup.graph import Graph, Op

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PRODUCTS = ("convolution", "depthwise", "dense")  # whose formulas differ by the dtype of the weights
_LANES = 16  # 8-bit lanes of a vector register


@dataclass(frozen=True, slots=True)
class Formula:
    """Instructions of a kernel: the sum of coefficients times the sizes of the same names.

    `error` is the 90 % quantile of |log(estimated / counted)| over models that the fit did not see, or an
    assumed one if there were few.
    """

    coefficients: Mapping[str, float]
    operators: int
    error: float

    def instructions(self, sizes: Mapping[str, float]) -> float:
        """The instructions of a kernel call with these sizes."""
        return sum(factor * sizes.get(name, 0.0) for name, factor in self.coefficients.items())


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions of each op of a graph; nan if there is no formula for its kernel."""

    by_op: tuple[float, ...]
    formulas: tuple[Formula | None, ...]

    @property
    def total(self) -> float:
        """The sum over the ops with a formula."""
        return math.fsum(count for count in self.by_op if not math.isnan(count))


@cache
def formula_file() -> Mapping[str, Any]:
    """The content of instructions.toml."""
    return tomllib.loads((files("sizeup.backends.tflm") / "instructions.toml").read_text())


@cache
def formulas() -> Mapping[str, Mapping[str, Formula]]:
    """All formulas: by kernel library and vector instructions (`cmsis-nn dsp`), then by variant."""
    return {
        firmware["name"]: {
            variant: Formula(kernel["coefficients"], kernel["operators"], kernel["error"])
            for variant, kernel in firmware["kernels"].items()
        }
        for firmware in formula_file()["firmware"]
    }


def firmware_name(build: Build) -> str:
    """The name of a build's formulas: `cmsis-nn dsp`."""
    return f"{build.kernels} {build.vectors or 'no vectors'}"


def instructions_of(graph: Graph, build: Build) -> Instructions:
    """The instructions of each op of a graph, without the graphs that its ops call."""
    known = formulas().get(firmware_name(build), {})
    counts: list[float] = []
    used: list[Formula | None] = []
    for op in graph.ops:
        call = Call(op, graph.tensors, build)
        try:
            formula = next((known[name] for name in variants(call) if name in known), None)
            counts.append(math.nan if formula is None else formula.instructions(sizes_of(call)))
        except Incomplete:
            formula = None
            counts.append(math.nan)
        used.append(formula)
    return Instructions(tuple(counts), tuple(used))


def variants(call: Call) -> Iterator[str]:
    """The names of a call's kernel variant, the most specific one first."""
    dtype = _dtype(call.op, call)
    path = _path(call)
    if path:
        yield f"{call.op.source} {dtype} {path}"
    yield f"{call.op.source} {dtype}"


def _counted_by(call: Call) -> CountedBy:
    kernel = KERNELS.get(call.op.source)
    return "" if kernel is None else kernel.counted_by


def _dtype(op: Op, call: Call) -> str:
    data = [call.input(position) for position in range(len(op.inputs)) if call.has(position)]
    if not data:
        return call.output().dtype.name
    if _counted_by(call) in _PRODUCTS and len(data) > 1:
        return f"{data[0].dtype.name} x {data[1].dtype.name}"
    result = call.output().dtype.name if op.outputs else ""
    return data[0].dtype.name if result in ("", data[0].dtype.name) else f"{data[0].dtype.name} to {result}"


def _path(call: Call) -> str:
    """The code path that a kernel takes, if it has several with other costs."""
    sizes = _counted_by(call)
    if sizes == "pairs" and call.has(1):
        return "" if shape_of(call.input(0)) == shape_of(call.input(1)) else "broadcast"
    if sizes == "means":
        return "rows" if len(shape_of(call.input(0))) == 4 else ""
    if call.build.kernels != "cmsis-nn" or sizes not in _PRODUCTS or _is_float(call):
        return ""
    if sizes == "dense":
        return "pointwise" if runs_as_convolution(call) else "general"
    conv = window_of(call)
    return _convolution_path(conv, call) if sizes == "convolution" else _depthwise_path(conv, call)


def _is_float(call: Call) -> bool:
    return call.input(0).dtype.name == "float32"


def _convolution_path(conv: Window, call: Call) -> str:
    if conv.data[3] != conv.filter[3]:
        return "grouped"
    if conv.is_pointwise:
        return "pointwise" if conv.stride == (1, 1) else "pointwise strided"
    if conv.is_one_row and call.build.vectors == "mve":
        return "row"
    return "general"


def _depthwise_path(conv: Window, call: Call) -> str:
    if conv.data[3] != conv.result[3] or conv.data[0] != 1:
        return "multiplied"
    if conv.dilation != (1, 1):
        return "dilated"
    if conv.filter[1:3] == (3, 3) and max(conv.padding) <= 1:
        return "3x3"
    return "general"


def sizes_of(call: Call) -> dict[str, float]:
    """The sizes that formulas refer to."""
    sizes = _SIZES.get(_counted_by(call))
    return _plain_sizes(call) if sizes is None else sizes(call)


def _dense_sizes(call: Call) -> dict[str, float]:
    filters, length = shape_of(call.input(1))[-2:]
    return _product_sizes(elements_of(call.output()) // max(filters, 1), filters, length)


def _with(name: str, count: Callable[[Call], float]) -> Callable[[Call], dict[str, float]]:
    """The sizes of the tensors, and another one."""
    return lambda call: {**_plain_sizes(call), name: count(call)}


def _transposed_macs(call: Call) -> float:
    weights, data = (
        next(
            tensor
            for tensor in map(call.input, range(len(call.op.inputs)))
            if len(shape_of(tensor)) == 4 and (tensor.data is not None) == is_constant
        )
        for is_constant in (True, False)
    )
    return elements_of(data) * math.prod(shape_of(weights)[:3])


def _matmul_macs(call: Call) -> float:
    left, result = shape_of(call.input(0)), shape_of(call.output())
    length = elements_of(call.input(0)) // max(math.prod(result[:-1]), 1) or left[-1]
    return elements_of(call.output()) * length


def _taps(call: Call) -> float:
    height, width = call.op.attrs["kernel"]
    return elements_of(call.output()) * int(height) * int(width)


def _lstm_macs(call: Call) -> float:
    data, result = shape_of(call.input(0)), shape_of(call.output())
    units = result[-1]
    return 4 * math.prod(data[:-1]) * units * (data[-1] + units)


def _plain_sizes(call: Call) -> dict[str, float]:
    inputs = [call.input(position) for position in range(len(call.op.inputs)) if call.has(position)]
    read = sum(elements_of(tensor) for tensor in inputs if tensor.data is None)
    shape = shape_of(call.output()) if call.op.outputs else ()
    return {
        "calls": 1,
        "results": sum(elements_of(call.output(position)) for position in range(len(call.op.outputs))),
        "read": read,
        "rows": math.prod(shape[:-1]) if shape else 1,
        "inputs": len(inputs),
        "outputs": len(call.op.outputs),
    }


def _product_sizes(positions: int, filters: int, length: int) -> dict[str, float]:
    """Sizes of a product of matrices: results are `positions` x `filters` sums of `length` products."""
    results = positions * filters
    vectors = -(-length // _LANES)
    return {
        "calls": 1,
        "results": results,
        "positions": positions,
        "filters": filters,
        "macs": results * length,
        "columns": positions * length,
        "last_position_macs": positions % 2 * filters * length,
        "last_filter_macs": filters % 2 * positions * length,
        "rest_of_4": results * (length % 4),
        "rest_of_16": results * (length % _LANES),
        "vectors": results * vectors,
        "last_vectors": positions % 4 * filters * vectors,
        "quads": positions * -(-filters // 4) * vectors,
    }


def _convolution_sizes(conv: Window, *, is_depthwise: bool) -> dict[str, float]:
    batch, height, width, filters = conv.result
    positions, taps = batch * height * width, math.prod(conv.filter[1:3])
    channels = 1 if is_depthwise else conv.filter[3]
    sizes = _product_sizes(positions, filters, taps * channels)
    inside = batch * math.prod(_taps_inside(conv, axis) for axis in (0, 1))
    sizes |= {
        "taps": positions * taps * filters,
        "taps_inside": inside * filters,
        "macs_inside": inside * filters * channels,
        "window": positions * taps,
        "window_inside": inside,
        "lines": batch * height,
        "copies": positions * taps * -(-channels // _LANES),
    }
    if is_depthwise:
        sizes["vectors"] = positions * taps * -(-filters // _LANES)
        sizes["channels"] = positions * taps * conv.data[3]
        sizes["quads"] = positions * -(-filters // 4)
    return sizes


def _taps_inside(conv: Window, axis: int) -> int:
    """Taps of the filter that are inside of the data, summed over the results along an axis."""
    extent, taps, step = conv.data[1 + axis], conv.filter[1 + axis], conv.dilation[axis]
    total = 0
    for tap in range(taps):
        # Results whose input, stride x result + step x tap - padding, is inside.
        offset = step * tap - conv.padding[axis]
        first = max(0, -(offset // conv.stride[axis]))
        last = (extent - 1 - offset) // conv.stride[axis]
        total += max(0, min(last, conv.result[1 + axis] - 1) - first + 1)
    return total


_SIZES: dict[CountedBy, Callable[[Call], dict[str, float]]] = {
    "convolution": lambda call: _convolution_sizes(window_of(call), is_depthwise=False),
    "depthwise": lambda call: _convolution_sizes(window_of(call), is_depthwise=True),
    "dense": _dense_sizes,
    "transposed": _with("macs", _transposed_macs),
    "batches": _with("macs", _matmul_macs),
    "window": _with("taps", _taps),
    "filters": _with("macs", lambda call: elements_of(call.input(1)) + elements_of(call.input(2))),
    "gates": _with("macs", _lstm_macs),
}
