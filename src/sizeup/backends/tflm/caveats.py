"""Where TFLite Micro runs a model but computes something else, or fails for some inputs.

Read from the kernels of tensorflow/tflite-micro (commit 90b983c) and of CMSIS-NN (commit 4ab83cc); outputs of
emulated boards were compared with those of the reference kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sizeup.backends.tflm.kernel_call import Call, shape_of
from sizeup.backends.tflm.kernel_rules import (
    INT8,
    INT16,
    OUTPUT,
    dtype,
    is_constant,
    listed,
    uses_cmsis_nn,
    values,
    zero_point,
)
from sizeup.backends.tflm.layout import FIRMWARE, Build
from sizeup.backends.tflm.product_rules import INTEGERS, bias_is_misread, operands
from sizeup.graph import Graph, name_of

_Caveat: TypeAlias = Callable[[Call], str | None]
_REVERSED_ABOVE = 16  # input channels from which a transposed convolution runs as a convolution


def _dropped_activation(call: Call) -> str | None:
    activation = call.op.attrs.get("activation")
    if not activation or dtype(call) not in INTEGERS:
        return None
    return f"ignores its fused {activation}"


def _shifted_rows(call: Call) -> str | None:
    """Rows before the first output are dropped in steps of the stride, not one by one."""
    stride = call.op.attrs.get("stride")
    if dtype(call) != INT8 or stride is None:  # None if the file has no options
        return None
    data, weights, result = (shape_of(tensor) for tensor in (call.input(0), call.input(1), call.output()))
    if max(stride) <= 2 and data[3] > _REVERSED_ABOVE:
        return None
    rows = -(-result[1] // stride[0])
    is_same = rows == data[1]  # padding "same"; "valid" has more rows
    padding = max(0, (rows - 1) * stride[0] + weights[1] - result[1]) // 2 if is_same else 0
    if padding % stride[0] == 0:
        return None
    return f"writes wrong rows with a stride of {stride[0]} and a filter of {weights[1]} rows"


def _five_dimensions(call: Call) -> str | None:
    is_deep = dtype(call) == INT8 and len(shape_of(call.input(0))) > 4
    return "writes nothing for int8 data of 5 dimensions" if is_deep else None


def _padded_batch(call: Call) -> str | None:
    data = shape_of(call.input(0))
    if dtype(call) != INT8 or len(data) < 5:
        return None
    paddings = values(call.input(1)) or []
    is_plain = data[0] == 1 and not any(paddings[:2])
    return None if is_plain else "pads only the last 4 dimensions of int8 data"


def _extremes(call: Call) -> str | None:
    is_deep = dtype(call, OUTPUT) == INT8 and len(shape_of(call.output())) > 4
    return "reads only 4 dimensions of int8 data" if is_deep else None


def _groups(call: Call) -> str | None:
    is_grouped = dtype(call) == INT16 and call.op.attrs.get("groups", 1) > 1
    return "computes grouped convolutions of int16 data as ungrouped" if is_grouped else None


def _misread_bias(call: Call) -> str | None:
    return "reads its int32 bias as int64" if bias_is_misread(call) else None


def _packed_weights(call: Call) -> str | None:
    is_packed = call.build.vectors == "mve" and operands(call)[1].dtype.name == "int4"
    return "computed other values with int4 weights on an emulated Cortex-M55" if is_packed else None


def _forgotten_state(call: Call) -> str | None:
    return "starts every inference without state" if dtype(call) in INTEGERS else None


def _lstm_fault(call: Call) -> str | None:
    is_integer = dtype(call) in INTEGERS
    return "faults instead of reporting an error if the arena is too small" if is_integer else None


def _dense_fault(call: Call) -> str | None:
    data, weights = operands(call)
    has_sums = call.build.vectors == "mve" and data.dtype.name == weights.dtype.name == INT8
    is_fault = has_sums and is_constant(weights)
    return "faults instead of reporting an error if the arena is too small" if is_fault else None


_LOWEST = {INT8: -(1 << 7), INT16: -(1 << 15)}


def _negative_inputs(call: Call) -> str | None:
    is_signed = zero_point(call.input(0)) > _LOWEST.get(dtype(call), 0)
    return "fails during inference for inputs below its zero point" if is_signed else None


def _unset_scales(call: Call) -> str | None:
    return "compares int16 data without setting its scales" if dtype(call) == INT16 else None


def _mixed_inputs(call: Call) -> str | None:
    names = [*dict.fromkeys(dtype(call, position) for position in (0, 1, OUTPUT))]
    return f"reads {listed(names)} tensors as {dtype(call, OUTPUT)}" if len(names) > 1 else None


def _hybrid_lstm(call: Call) -> str | None:
    is_hybrid = dtype(call).startswith("float") and dtype(call, 1) == INT8
    return "reads its int8 weights as float32" if is_hybrid else None


_ALL: dict[str, tuple[_Caveat, ...]] = {
    "ADD": (_mixed_inputs,),
    "DEPTHWISE_CONV_2D": (_misread_bias,),
    "FULLY_CONNECTED": (_misread_bias,),
    "GREATER": (_unset_scales,),
    "RSQRT": (_negative_inputs,),
    "SUB": (_mixed_inputs,),
    "TRANSPOSE_CONV": (_misread_bias,),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (_hybrid_lstm,),
}
_CMSIS_NN: dict[str, tuple[_Caveat, ...]] = {
    "CONV_2D": (_groups,),
    "DEPTHWISE_CONV_2D": (_packed_weights,),
    "FULLY_CONNECTED": (_dense_fault,),
    "MAXIMUM": (_extremes,),
    "MINIMUM": (_extremes,),
    "PAD": (_padded_batch,),
    "PADV2": (_padded_batch,),
    "TRANSPOSE": (_five_dimensions,),
    "TRANSPOSE_CONV": (_dropped_activation, _shifted_rows),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (_forgotten_state, _lstm_fault),
}
# Kernels of ESP-NN whose outputs were not compared; for other operators it has the reference kernels.
_OF_ESP_NN = ("ADD", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")

# Operators whose kernels fail during inference for some values of an input, with the position of that input.
_BY_VALUE = {
    **dict.fromkeys(("DIV", "FLOOR_DIV", "FLOOR_MOD"), 1),  # divisors of 0
    "EMBEDDING_LOOKUP": 0,  # indices
    **dict.fromkeys(("GATHER", "GATHER_ND"), 1),  # indices
    "RSQRT": 0,  # negative numbers
}


def _is_complete(call: Call) -> bool:
    """Whether it has the operands and ranks that a kernel needs; `unsupported_reason` is about the others."""
    if not call.op.outputs or not call.has(0):
        return False
    is_transposed = call.op.source == "TRANSPOSE_CONV"
    return not is_transposed or (
        call.has(1) and len(shape_of(call.input(0))) == 4 == len(shape_of(call.output()))
    )


def caveats(graphs: Sequence[Graph], build: Build = FIRMWARE) -> list[str]:
    """Reservations about a model that a build of the interpreter runs, each with its first operator."""
    first: dict[str, str] = {}
    for graph in graphs:
        for op in graph.ops:
            call = Call(op, graph.tensors, build)
            is_espressif = build.kernels == "esp-nn" and op.source in _OF_ESP_NN
            rules = () if is_espressif else _ALL.get(op.source, ())
            if uses_cmsis_nn(call):
                rules += _CMSIS_NN.get(op.source, ())
            for text in filter(None, (rule(call) for rule in rules if _is_complete(call))):
                first.setdefault(f"its {op.source} kernel {text}", name_of(graph, op))
    return [f"{text} (operator {name!r})" for text, name in first.items()]


def may_fail_by_value(graphs: Sequence[Graph], operator: str) -> bool:
    """Whether inference can fail in such an operator for some inputs of the model and run for others."""
    if operator not in _BY_VALUE:
        return False
    calls = (
        Call(op, graph.tensors, FIRMWARE) for graph in graphs for op in graph.ops if op.source == operator
    )
    position = _BY_VALUE[operator]
    return any(call.has(position) and not is_constant(call.input(position)) for call in calls)
