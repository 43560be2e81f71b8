"""What a PyTorch operator is to us: its kind, which of its arguments are tensors, its attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from sizeup.dtypes import DTYPES, DType
from sizeup.formats.torch.normalise import NORMALISERS
from sizeup.formats.torch.symbolic import plain
from sizeup.ops import generation, kind_of, rule_of

SEQUENCES = (list, tuple)  # a union would be built anew at every look, of which there are many
_TENSORS = ("Tensor", "Optional[Tensor]", "List[Tensor]", "List[Optional[Tensor]]", "Optional[List[Tensor]]")


@dataclass(frozen=True, slots=True)
class Operator:
    """The facts of one overload that do not change from call to call."""

    kind: str
    source: str
    name: str  # without namespace, overload and the underscore of in-place variants
    known: bool
    arguments: tuple[str, ...]
    tensors: tuple[tuple[int, str], ...]  # place and name of arguments that may hold tensors
    views: bool
    mutates: bool
    skipped: bool


def operator_of(function: Any) -> Operator:
    """The facts of an overload, by the rules that there are now."""
    return _operator_of(function, generation())


def taken_apart(
    mode: Any, function: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What an operator without a rule gives where torch takes it apart under a mode; else NotImplemented."""
    if operator.known or operator.skipped or not isinstance(function, torch._ops.OpOverload):
        return NotImplemented
    with mode:
        return function.decompose(*args, **kwargs)


@cache
def _operator_of(function: Any, _generation: int) -> Operator:
    # Of a higher-order operator only the name is known.
    schema = getattr(function, "_schema", None)
    if schema is None:
        source = f"higher_order.{function.name() if callable(function.name) else function.name}"
        kind = kind_of("torch", source)
        return Operator(kind or source, source, source, kind is not None, (), (), False, False, False)
    namespace, _, base = schema.name.partition("::")
    overload = f".{schema.overload_name}" if schema.overload_name else ""
    source = f"{namespace}.{base}"
    plain = base.removesuffix("_") if not base.startswith("__") else base
    kind = (
        kind_of("torch", source + overload)
        or kind_of("torch", source)
        or kind_of("torch", f"{namespace}.{plain}")
    )
    known = kind is not None
    if kind is None:
        kind = _kind_by_tags(function) or source
    rule = rule_of(kind)
    return Operator(
        kind,
        source,
        plain,
        known,
        tuple(argument.name for argument in schema.arguments),
        tuple(
            (i, a.name) for i, a in enumerate(schema.arguments) if str(a.type) in _TENSORS and not a.is_out
        ),
        bool(rule and rule.views),
        schema.is_mutable,
        namespace == "prim",
    )


def _kind_by_tags(function: Any) -> str | None:
    if torch.Tag.pointwise in function.tags:
        return "pointwise"
    return "view" if function.is_view else None


def tensor_arguments(operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The tensors of a call in the schema's order, lists flattened, None where an optional one is absent."""
    found: list[Any] = []
    for place, name in operator.tensors:
        value = args[place] if place < len(args) else kwargs.get(name)
        if isinstance(value, SEQUENCES):
            found.extend(value)
        else:  # a plain number may stand for a tensor
            found.append(value if isinstance(value, torch.Tensor) else None)
    while found and found[-1] is None:
        found.pop()
    return found


def normalise(
    operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: list[Any]
) -> tuple[str, list[Any], dict[str, Any]]:
    """Kind, tensor inputs in the order that the rule expects, and attributes of one call."""
    inputs = tensor_arguments(operator, args, kwargs)
    normaliser = NORMALISERS.get(operator.kind)
    if normaliser is None:
        if operator.kind == "reshape" and _is_copy(inputs, outputs):
            return "copy", inputs[:1], {}
        return operator.kind, inputs, {}
    given = {**dict(zip(operator.arguments, args, strict=False)), **kwargs}
    normal = normaliser(operator.name, given)
    return normal.kind or operator.kind, normal.inputs or inputs, normal.attrs


def _is_copy(inputs: list[Any], outputs: list[Any]) -> bool:
    return bool(inputs[0].untyped_storage()._cdata != outputs[0].untyped_storage()._cdata)


@cache
def dtype_of(kind: torch.dtype) -> DType:
    """Our number type for torch's."""
    name = str(kind).removeprefix("torch.")
    renamed = {
        "quint8": "uint8",
        "qint8": "int8",
        "qint32": "int32",
        "quint4x2": "uint8",
        "quint2x4": "uint8",
        "float4_e2m1fn_x2": "uint8",
        "bits8": "uint8",
        "bits16": "uint16",
    }
    return DTYPES.get(renamed.get(name, name), DTYPES["unknown"])


def shape_of(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The dimensions, expressions where they are free, or None where one of them depends on data."""
    shape = tuple(tensor.shape)
    for size in shape:
        if type(size) is not int:
            shape = plain(shape)
            return None if any(each is None for each in shape) else shape
    return shape


def _recurrent_result(sequence: torch.Tensor, state: torch.Tensor, *settings: Any) -> list[torch.Tensor]:
    width = state.shape[-1] * (
        1 + settings[5]
    )  # parameters, biases, layers, dropout, training, bidirectional
    return [sequence.new_empty((*sequence.shape[:-1], width)), torch.empty_like(state)]


def _grouped_result(
    left: torch.Tensor, right: torch.Tensor, ends: torch.Tensor | None = None, *_: Any
) -> torch.Tensor:
    """Groups of the columns that both share make a result each; those of the right one's columns make one."""
    sides = (*left.shape[:-1], right.shape[-1])
    if left.dim() == right.dim() == 2 and ends is not None:
        return left.new_empty((ends.shape[0], *sides))
    return left.new_empty(sides[1:] if (left.dim(), right.dim()) == (3, 2) else sides)


def _dropout_result(data: torch.Tensor, share: float, training: bool) -> torch.Tensor:
    drops = training and share > 0
    aten = torch.ops.aten
    made: torch.Tensor = aten.dropout.default(data, share, training) if drops else aten.alias.default(data)
    return made


# Recurrent layers run step by step on tensors without content, and grouped products insist on a number
# type that only some devices need; the shape of the result is plain. Dropout that drops nothing hands back
# what it was given, but copies tensors without content.
SHORTCUTS: dict[str, Callable[..., Any]] = {
    "aten.gru": _recurrent_result,
    "aten.rnn_tanh": _recurrent_result,
    "aten.rnn_relu": _recurrent_result,
    "aten._grouped_mm": _grouped_result,
    "aten.dropout": _dropout_result,
}
