"""The coefficients basis: milliseconds per 2,000,000 MACs, by layer and precision.

The table can be replaced by measured values. Only convolutions and matrix products take time in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from sizeup import dtypes
from sizeup.cost import Cost
from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.files import read_settings
from sizeup.graph import Graph, Op
from sizeup.latency.work import Floats, is_depthwise
from sizeup.ops import cost_rule_of
from sizeup.settings import parse_json, parse_toml
from sizeup.units import quoted

MACS = 2_000_000
"""MACs that a coefficient is the time of."""
_LEAST, _MOST = 1e-12, 1e12  # valid coefficients, except 0
LAYERS = ("conv", "depthwise", "linear")
# Row names of other tools, in lower case.
_ALIASES = {"dwconv": "depthwise", "depthwiseconv": "depthwise", "depthwise_conv": "depthwise"}

_EXAMPLE = '{"conv": {"fp32": 100, "int8": 28}}'

# Milliseconds by layer and precision.
Table: TypeAlias = Mapping[str, Mapping[str, float]]

DEFAULT: Table = MappingProxyType(
    {
        "conv": {"fp32": 100.0, "fp16": 50.0, "int8": 28.0, "int4": 17.4, "int2": 11.0},
        "depthwise": {"fp32": 200.0, "fp16": 100.0, "int8": 46.0, "int4": 27.0, "int2": 16.8},
        "linear": {"fp32": 50.0, "fp16": 25.0, "int8": 14.0, "int4": 8.7, "int2": 5.5},
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class LayerTimes:
    """Milliseconds of each op, and its row of the table ('' if it has none)."""

    layers: tuple[str, ...]
    milliseconds: Floats

    @property
    def total(self) -> float:
        """Milliseconds of one inference."""
        return float(self.milliseconds.sum())


def layer_of(graph: Graph, op: Op) -> str:
    """The table row of an op; '' if it is neither a convolution nor a matrix product."""
    rule = cost_rule_of(op.kind)
    if rule is None or rule.macs is None:
        return ""
    if op.kind == "conv":
        return "depthwise" if is_depthwise(graph, op) else "conv"
    return "conv" if rule.family == "conv" else "linear"


def layer_times(cost: Cost, precision: DType | list[DType], table: Table = DEFAULT) -> LayerTimes:
    """MACs / 2,000,000 x coefficient of each op, at one precision or at one per op."""
    layers = tuple(layer_of(cost.graph, op) for op in cost.graph.ops)
    dtypes_by_op = [precision] * len(layers) if isinstance(precision, DType) else precision
    if len(dtypes_by_op) != len(layers):
        raise SizeupError(
            f"{len(dtypes_by_op)} precisions for {len(layers)} operators; give one per operator"
        )
    rates = [_coefficient(table, layer, dtype) for layer, dtype in zip(layers, dtypes_by_op, strict=True)]
    return LayerTimes(layers, cost.macs / MACS * np.array(rates, np.float64))


def _coefficient(table: Table, layer: str, precision: DType) -> float:
    if not layer:
        return 0.0
    row, name = table[layer], precision_name(precision)
    if name not in row:
        raise SizeupError(f"no coefficient for {layer} at {name}; the table has {', '.join(row)}")
    return row[name]


def table_from(content: Any) -> Table:
    """A coefficient table from plain data; layers and precisions not in it keep their default."""
    if not isinstance(content, Mapping) or not all(isinstance(row, Mapping) for row in content.values()):
        raise SizeupError(f"a coefficient table has one table per layer: {_EXAMPLE}")
    table = {layer: dict(DEFAULT[layer]) for layer in LAYERS}
    row_names: dict[str, str] = {}
    for name, row in content.items():
        layer = _layer_named(name)
        if layer in row_names:
            raise SizeupError(f"{quoted(row_names[layer])} and {quoted(name)} are the same layer; keep one")
        row_names[layer] = name
        table[layer] |= dict(_coefficients(name, row))
    return table


def _layer_named(name: Any) -> str:
    lower = str(name).lower()
    layer = _ALIASES.get(lower, lower)
    if layer not in LAYERS:
        raise SizeupError(
            f"unknown layer {quoted(name)}; a coefficient table has {', '.join(LAYERS)}"
            f" (also Conv, DWConv, Linear): {_EXAMPLE}"
        )
    return layer


def _coefficients(layer: str, row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in row.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not (value == 0 or _LEAST <= value <= _MOST):
            raise SizeupError(
                f"the coefficient of {layer} at {name} is {quoted(value)}, not a number of milliseconds"
            )
        yield precision_name(dtypes.precision(name)), value


def read_table(path: str | Path) -> Table:
    """A coefficient table from a TOML or JSON file."""
    file = Path(path)
    try:
        text = read_settings(file)
        content = parse_json(text) if file.suffix == ".json" else parse_toml(text)
    except (OSError, ValueError) as error:
        raise SizeupError(f"{file}: not a coefficient table: {error}") from error
    try:
        return table_from(content)
    except SizeupError as error:
        raise SizeupError(f"{file}: {error}") from error


def own_types(cost: Cost, table: Table) -> tuple[list[DType], list[str]]:
    """The output dtype of each op, fp32 if the table lacks it; and the dtypes that the table lacks."""
    types, missing = [], dict[str, None]()
    for op in cost.graph.ops:
        layer = layer_of(cost.graph, op)
        dtype = cost.graph.tensors[op.outputs[0]].dtype if op.outputs else dtypes.precision("fp32")
        is_known = not layer or precision_name(dtype) in table[layer]
        types.append(dtype if is_known else dtypes.precision("fp32"))
        if not is_known:
            missing[precision_name(dtype)] = None
    return types, list(missing)
