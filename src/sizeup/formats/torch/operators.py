"""Describe PyTorch operators: op kind, tensor arguments and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from sizeup.dtypes import DTYPES, DType
from sizeup.formats.torch.lowering import LOWERING_RULES
from sizeup.formats.torch.quantized_lowering import QUANTIZED_LOWERING_RULES
from sizeup.formats.torch.shape_env import to_expressions
from sizeup.ops import cost_rule_of, op_kind_of, table_version
from sizeup.ops.handlers import Handlers

_PLAIN_DROPOUT = frozenset(("aten.dropout", "aten.dropout_"))
_DROPOUT = frozenset(
    f"aten.{name}{suffix}" for name in ("dropout", "feature_dropout", "alpha_dropout") for suffix in ("", "_")
)
SEQUENCES = (list, tuple)  # a union type would be built again at every check
_TENSORS = ("Tensor", "Optional[Tensor]", "List[Tensor]", "List[Optional[Tensor]]", "Optional[List[Tensor]]")


@dataclass(frozen=True, slots=True)
class Operator:
    """The properties of one overload that are the same for every call."""

    kind: str
    source: str
    name: str  # without namespace, overload and the underscore of in-place variants
    known: bool
    arguments: tuple[str, ...]
    tensors: tuple[tuple[int, str], ...]  # index and name of arguments that may be tensors
    views: bool
    mutates: bool
    skipped: bool
    packed: bool = False  # takes weights packed by torch's quantized modules


def operator_of(function: Any) -> Operator:
    """Return the properties of an overload under the currently registered cost rules."""
    return _operator_of(function, table_version())


def decompose(
    mode: Any, function: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run the decomposition of an operator without a cost rule under a mode; else NotImplemented.

    Active dropout is decomposed too: it draws a mask, scales it and multiplies by it.
    """
    is_whole = operator.known and not _is_active_dropout(operator, args, kwargs)
    if is_whole or operator.skipped or not isinstance(function, torch._ops.OpOverload):
        return NotImplemented
    with mode:
        if operator.source in _PLAIN_DROPOUT and args[0].device.type == "cpu":
            return _drop(*args[:2], in_place=operator.mutates)
        return function.decompose(*args, **kwargs)


def _drop(data: torch.Tensor, share: float, *, in_place: bool) -> torch.Tensor:
    """Run dropout as torch's CPU kernel does; torch's decomposition is the fused kernel of GPUs."""
    if share == 0 or data.numel() == 0:
        return data
    noise = torch.empty_like(data).bernoulli_(1 - share)
    if share < 1:
        noise.div_(1 - share)
    return data.mul_(noise) if in_place else data * noise


def _is_active_dropout(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if operator.source not in _DROPOUT:
        return False
    return bool(args[2] if len(args) > 2 else kwargs.get("train"))


_HIGHER_ORDER_ARGUMENTS = {
    "higher_order.flex_attention": ("query", "key", "value", "score_mod", "block_mask", "scale"),
}


@cache
def _operator_of(function: Any, _generation: int) -> Operator:
    # A higher-order operator has only a name.
    schema = getattr(function, "_schema", None)
    if schema is None:
        source = f"higher_order.{function.name() if callable(function.name) else function.name}"
        op_kind = op_kind_of("torch", source)
        arguments = _HIGHER_ORDER_ARGUMENTS.get(source, ())
        tensors = tuple((i, name) for i, name in enumerate(arguments) if name in ("query", "key", "value"))
        known = op_kind is not None
        return Operator(op_kind or source, source, source, known, arguments, tensors, False, False, False)
    namespace, _, base = schema.name.partition("::")
    overload = f".{schema.overload_name}" if schema.overload_name else ""
    source = f"{namespace}.{base}"
    plain = base.removesuffix("_") if not base.startswith("__") else base
    op_kind = (
        op_kind_of("torch", source + overload)
        or op_kind_of("torch", source)
        or op_kind_of("torch", f"{namespace}.{plain}")
    )
    known = op_kind is not None
    if op_kind is None:
        op_kind = _op_kind_from_tags(function) or source
    rule = cost_rule_of(op_kind)
    return Operator(
        op_kind,
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
        any("torch.classes." in str(argument.type) for argument in schema.arguments),
    )


def _op_kind_from_tags(function: Any) -> str | None:
    if torch.Tag.pointwise in function.tags:
        return "pointwise"
    return "view" if function.is_view else None


def tensor_arguments(operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the tensors of a call in schema order, lists flattened, None for absent optional ones."""
    tensors: list[Any] = []
    for index, name in operator.tensors:
        value = args[index] if index < len(args) else kwargs.get(name)
        if isinstance(value, SEQUENCES):
            tensors.extend(value)
        else:  # a scalar may be passed as a tensor
            tensors.append(value if isinstance(value, torch.Tensor) else None)
    while tensors and tensors[-1] is None:
        tensors.pop()
    return tensors


def lower_call(
    operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: list[Any]
) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the op kind, the tensor inputs in the cost rule's order, and the attributes of a call."""
    inputs = tensor_arguments(operator, args, kwargs)
    rule = QUANTIZED_LOWERING_RULES.get(operator.source) or LOWERING_RULES.get(operator.kind)
    if rule is None:
        if operator.kind == "reshape" and _is_copy(inputs, outputs):
            return "copy", inputs[:1], {}
        return operator.kind, inputs, {}
    call_args = {**dict(zip(operator.arguments, args, strict=False)), **kwargs}
    lowering = rule(operator.name, call_args)
    return lowering.kind or operator.kind, lowering.inputs or inputs, lowering.attrs


def _is_copy(inputs: list[Any], outputs: list[Any]) -> bool:
    return bool(inputs[0].untyped_storage()._cdata != outputs[0].untyped_storage()._cdata)


@cache
def dtype_of(dtype: torch.dtype) -> DType:
    """Return our dtype for a torch dtype."""
    name = str(dtype).removeprefix("torch.")
    renamed = {
        "quint8": "uint8",
        "qint8": "int8",
        "qint32": "int32",
        "quint4x2": "uint4",
        "quint2x4": "uint2",
        "float4_e2m1fn_x2": "uint8",
        "bits8": "uint8",
        "bits16": "uint16",
    }
    return DTYPES.get(renamed.get(name, name), DTYPES["unknown"])


def shape_of(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Return the shape, with expressions for symbolic dimensions; None if one depends on data."""
    shape = tuple(tensor.shape)
    for size in shape:
        if type(size) is not int:
            shape = to_expressions(shape)
            return None if any(dimension is None for dimension in shape) else shape
    return shape


# Cheaper or more general than torch's own: recurrent layers run step by step on fake tensors, grouped matmuls
# require a dtype that only some devices need, and inactive dropout copies fake tensors instead of aliasing.
META_KERNELS = Handlers[Callable[..., Any]]()


@META_KERNELS("aten.gru", "aten.rnn_tanh", "aten.rnn_relu")
def _recurrent_result(sequence: torch.Tensor, state: torch.Tensor, *settings: Any) -> list[torch.Tensor]:
    is_bidirectional = settings[5]  # after parameters, biases, layers, dropout, training
    width = state.shape[-1] * (1 + is_bidirectional)
    return [sequence.new_empty((*sequence.shape[:-1], width)), torch.empty_like(state)]


@META_KERNELS("aten._grouped_mm")
def _grouped_result(
    left: torch.Tensor, right: torch.Tensor, ends: torch.Tensor | None = None, *_: Any
) -> torch.Tensor:
    """Result of a grouped matmul: one matrix per group if the contracted axis is grouped, else one."""
    sides = (*left.shape[:-1], right.shape[-1])
    if left.dim() == right.dim() == 2 and ends is not None:
        return left.new_empty((ends.shape[0], *sides))
    return left.new_empty(sides[1:] if (left.dim(), right.dim()) == (3, 2) else sides)


@META_KERNELS("aten.dropout")
def _dropout_result(data: torch.Tensor, share: float, training: bool) -> torch.Tensor:
    """Result of inactive dropout; active dropout is decomposed."""
    return torch.ops.aten.alias.default(data)  # type: ignore[no-any-return]


def _packed_attention_zeros(query: torch.Tensor, *_: Any) -> tuple[torch.Tensor, ...]:
    sums = query.new_zeros((query.shape[1], query.shape[0]), dtype=torch.float32)
    return torch.zeros_like(query), sums, torch.zeros(2, dtype=torch.uint64)


# Results of operators without a CPU kernel, in runs with real data on a CPU.
ZERO_KERNELS: dict[str, Callable[..., Any]] = {"torch_attn._varlen_attn": _packed_attention_zeros}
