"""TFLite Micro's kernels for convolutions, matrix products and recurrent layers.

Read from tensorflow/tflite-micro (tensorflow/lite/micro/kernels and its folder cmsis_nn, commit 90b983c): the
checks of Prepare and the dtypes of Eval. Checks that only debug builds of the kernels have are not rules.
Caveats are also of CMSIS-NN (commit 4ab83cc); outputs of emulated boards were compared with those of the
reference kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sizeup.backends.tflm.kernel import Call, Kernel, KernelMemory, Rule, Rules, elements_of, shape_of
from sizeup.backends.tflm.kernel_rules import (
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    OUTPUT,
    UINT8,
    activation_range,
    at,
    broadcast,
    dtype,
    is_constant,
    listed,
    only_cmsis_nn,
    only_for,
    positive,
    rank,
    same_types,
    scale,
    scale_count,
    symmetric,
    takes,
    uses_cmsis_nn,
)
from sizeup.backends.tflm.kernels import esp_nn, overlaps
from sizeup.backends.tflm.kernels import product_requests as requests
from sizeup.backends.tflm.kernels.product_requests import REVERSED_ABOVE, fully_connected_operands
from sizeup.backends.tflm.subgraphs import is_declared
from sizeup.graph import Tensor

_INTEGERS = (INT8, INT16)
_INT4 = "int4"
_TYPES = frozenset(((FLOAT, FLOAT), (INT8, INT8), (INT8, _INT4), (INT16, INT8)))
_TRANSPOSED_TYPES = frozenset(((FLOAT, FLOAT), (INT8, INT8), (INT16, INT8)))
_BIAS_DIFFERENCE = 0.02  # of the product of scales, in units of the output scale
_STATE_DIFFERENCE = 1e-5
_MAX_MULTIPLIER = 128  # of 64-bit sums
_HIGH_WORD = 1 << 15  # from here, a 64-bit sum exceeds the 48 bits that are rescaled


def _operands(call: Call) -> tuple[Tensor, Tensor]:
    """Data and weights of a convolution or matrix product."""
    if call.op.source != "FULLY_CONNECTED":
        return call.input(0), call.input(1)
    data, weights, _tables = fully_connected_operands(call)
    return data, weights


def _product_types(call: Call) -> str | None:
    """The dtypes of data and weights, also if they are those of an assumed precision."""
    if not call.has(0) or not call.has(1):
        return "needs data and weights"
    data, weights = (tensor.dtype.name for tensor in _operands(call))
    allowed = _TYPES
    if call.op.source == "TRANSPOSE_CONV":
        allowed = _TRANSPOSED_TYPES if uses_cmsis_nn(call) else _TRANSPOSED_TYPES | {(INT16, INT16)}
    return None if (data, weights) in allowed else f"does not support {data} data with {weights} weights"


def _same_output(call: Call) -> str | None:
    data, output = _operands(call)[0].dtype.name, dtype(call, OUTPUT)
    return None if data == output else f"writes the dtype of its data, {data}, not {output}"


def _depthwise_output(call: Call) -> str | None:
    """The reference kernel checks only that the output is quantized."""
    if uses_cmsis_nn(call):
        return _same_output(call)
    is_allowed = dtype(call) == FLOAT or dtype(call, OUTPUT) in (*_INTEGERS, UINT8)
    return None if is_allowed else f"writes {listed((*_INTEGERS, UINT8))}, not {dtype(call, OUTPUT)}"


def _scale_axis(weights: Tensor) -> str | None:
    """The number of scales per channel is compared with the size of the axis that the file records."""
    quant = weights.quant
    if quant is None or quant.recorded_axis is None:
        return None
    return f"takes as many scales as axis {quant.recorded_axis} of its weights has elements"


def _channel_scales(axis: int) -> Rules:
    def rule(call: Call) -> str | None:
        data, weights = _operands(call)
        if data.dtype.name not in _INTEGERS:
            return None
        if weights.quant is None:
            return f"needs scales of its {weights.dtype.name} weights"
        count, channels = scale_count(weights.quant), shape_of(weights)[axis]
        if count not in (1, channels):
            return f"takes 1 or {channels} scales of weights, not {count}"
        reason = _scale_axis(weights)
        if reason:
            return reason
        if count > 1 and weights.dtype.name not in (INT8, _INT4):
            return f"takes scales per channel of int8 weights, not of {weights.dtype.name}"
        zeros = int(np.size(weights.quant.zero_point))
        if call.op.source != "CONV_2D" and zeros != count:
            return f"takes as many zero points as scales of weights, not {zeros} for {count}"
        return None if data.quant is not None else f"needs scale and zero point of {data.name!r}"

    return (rule,)


def _multiplier(call: Call) -> str | None:
    """64-bit sums are rescaled by at most 7 bits to the left."""
    data, weights = _operands(call)
    if data.dtype.name != INT16 or weights.quant is None or scale(call.output()) <= 0:
        return None
    largest = scale(data) * float(np.max(weights.quant.scale)) / scale(call.output())
    return (
        f"needs a larger output scale than {scale(call.output()):g}" if largest >= _MAX_MULTIPLIER else None
    )


def _bias_is_misread(call: Call) -> bool:
    """Whether the kernel reads a 32-bit bias of 16-bit data as 64-bit integers."""
    if not call.has(2) or _operands(call)[0].dtype.name != INT16 or dtype(call, 2) != INT32:
        return False
    is_read_as_64 = {
        "DEPTHWISE_CONV_2D": True,
        "TRANSPOSE_CONV": True,
        "FULLY_CONNECTED": uses_cmsis_nn(call),
    }
    return is_read_as_64.get(call.op.source, False)


def _wide_bias(call: Call) -> str | None:
    """The reference kernel aborts if the high word of such a bias is large."""
    if not _bias_is_misread(call) or (uses_cmsis_nn(call) and call.op.source != "TRANSPOSE_CONV"):
        return None
    data = call.input(2).data
    if data is None or data.read is None:
        return None
    high = np.abs(np.ravel(data.read())[1::2].astype(np.int64))
    return "takes an int64 bias with int16 data, not int32" if np.any(high >= _HIGH_WORD) else None


def _convolution_bias(call: Call) -> str | None:
    if dtype(call) != INT16 or not call.has(2) or dtype(call, 2) in (INT32, INT64):
        return None
    return f"takes an int32 or int64 bias with int16 data, not {dtype(call, 2)}"


def _convolution_shapes(call: Call) -> str | None:
    """CMSIS-NN checks the batch, too."""
    data, weights, result = (shape_of(at(call, position)) for position in (0, 1, OUTPUT))
    if uses_cmsis_nn(call) and data[0] != result[0]:
        return f"writes the batch of its data, {data[0]}, not {result[0]}"
    if not weights[3] or data[3] % weights[3]:
        return f"takes channels that are a multiple of {weights[3]}, not {data[3]}"
    return None


def _transposed_bias(call: Call) -> str | None:
    """CMSIS-NN reads the dtype of the bias of 16-bit data without a check."""
    is_missing = uses_cmsis_nn(call) and dtype(call) == INT16 and not call.has(2)
    return "needs a bias with int16 data" if is_missing else None


def _dense(call: Call) -> str | None:
    data, weights = _operands(call)
    if data.dtype.name not in _INTEGERS:
        return None
    count = 1 if weights.quant is None else scale_count(weights.quant)
    if count == 1:
        return _bias_scale(call, data, weights)
    if weights.dtype.name == _INT4:
        return "takes one scale of int4 weights"
    if uses_cmsis_nn(call) and data.dtype.name == INT16:
        return "takes one scale of weights with int16 data, not one per channel"
    return _scale_axis(weights)


def _bias_scale(call: Call, data: Tensor, weights: Tensor) -> str | None:
    if call.has(2):
        expected, bias, output = scale(data) * scale(weights), scale(call.input(2)), scale(call.output())
        if output == 0:
            return "needs an output scale"
        if abs(expected - bias) / output > _BIAS_DIFFERENCE:
            return f"needs a bias scale of {expected:g}, not {bias:g}"
    return _product_scale(data, weights)


def _product_scale(left: Tensor, right: Tensor) -> str | None:
    product = scale(left) * scale(right)
    return None if product >= 0 else f"needs a product of scales of at least 0, not {product:g}"


def _matmul_scales(call: Call) -> str | None:
    return _product_scale(call.input(0), call.input(1)) if dtype(call) in _INTEGERS else None


def _dense_symmetric(call: Call) -> str | None:
    data = _operands(call)[0]
    if not uses_cmsis_nn(call) or data.dtype.name != INT16:
        return None
    zeros = [tensor.quant.zero_point[0] for tensor in (data, call.output()) if tensor.quant is not None]
    return "needs zero points of 0 with int16 data" if any(zeros) else None


def _matmul(call: Call) -> str | None:
    left, right, result = (shape_of(at(call, position)) for position in (0, 1, OUTPUT))
    highest = 4 if uses_cmsis_nn(call) else 5
    for shape in (left, right):
        if not 2 <= len(shape) <= highest:
            return f"takes 2 to {highest} dimensions, not {len(shape)}"
    rows_last, columns_first = call.op.attrs.get("adjoint", (False, False))
    inner = (left[-2] if rows_last else left[-1], right[-1] if columns_first else right[-2])
    if inner[0] != inner[1]:
        return f"takes matrices that match, not {inner[0]} columns with {inner[1]} rows"
    batch = broadcast(left[:-2], right[:-2])
    if batch is None:
        return "takes batches that broadcast"
    written = (*batch, left[-1] if rows_last else left[-2], right[-2] if columns_first else right[-1])
    if len(written) > len(result) or np.prod(written) != np.prod(result):
        return f"writes {'x'.join(map(str, written))}, not {'x'.join(map(str, result))}"
    return None


_FEATURES, _TIMES, _BIAS, _STATE = range(1, 5)


def _svdf(call: Call) -> str | None:
    if not call.has(_BIAS):
        return "needs a bias"
    if not is_declared(call.input(_STATE)):
        return "needs a state that is a variable"
    names = [dtype(call, position) for position in range(5)]
    if names[0] == FLOAT:
        others = {*names, dtype(call, OUTPUT)} - {FLOAT}
        return f"takes float32 throughout, not {listed(sorted(others))}" if others else None
    allowed = {_FEATURES: (INT8,), _TIMES: (INT16, INT8), _BIAS: (INT32,), _STATE: (INT16, INT8)}
    for position, allowed_names in (*allowed.items(), (OUTPUT, (INT8,))):
        if dtype(call, position) not in allowed_names:
            return f"takes {listed(allowed_names)} with int8 data, not {dtype(call, position)}"
    expected = scale(call.input(_STATE)) * scale(call.input(_TIMES))
    bias = scale(call.input(_BIAS))
    if abs(bias - expected) >= _STATE_DIFFERENCE:
        return f"needs a bias scale of {expected:g}, not {bias:g}"
    return None


def _svdf_shapes(call: Call) -> str | None:
    data, features, times, bias, state = (shape_of(call.input(position)) for position in range(5))
    result = shape_of(call.output())
    if any(len(shape) != 2 for shape in (data, features, times, state, result)) or not bias:
        return "takes matrices and a vector of biases"
    expected = (data[1], features[0], bias[0], (data[0], times[1] * features[0]), data[0])
    if expected != (features[1], times[0], result[1], state, result[0]):
        return "takes weights and states whose shapes match"
    is_free = call.build.vectors == "mve" and uses_cmsis_nn(call) and dtype(call) == INT8
    return "needs constant weights" if is_free and not is_constant(call.input(_FEATURES)) else None


_LSTM_WEIGHTS, _LSTM_BIASES = range(1, 9), range(12, 16)
_LSTM_HIDDEN, _LSTM_CELL = 18, 19
_LSTM_OTHERS = {"peephole": range(9, 12), "projection": range(16, 18), "layer normalization": range(20, 24)}


def _lstm(call: Call) -> str | None:
    if len(call.op.inputs) != 24:
        return f"takes 24 inputs, not {len(call.op.inputs)}"
    reasons = (*_lstm_tensors(call), *_lstm_types(call), *_lstm_shapes(call), *_lstm_scales(call))
    return next(iter(reasons), None)


def _lstm_tensors(call: Call) -> Iterator[str]:
    for variant, positions in _LSTM_OTHERS.items():
        if any(call.has(position) for position in positions):
            yield f"takes no {variant}"
    if not all(is_declared(call.input(position)) for position in (_LSTM_HIDDEN, _LSTM_CELL)):
        yield "needs states that are variables"
    parameters = (*_LSTM_WEIGHTS, *_LSTM_BIASES)
    if uses_cmsis_nn(call) and not all(is_constant(call.input(each)) for each in parameters):
        yield "needs constant weights and biases"


def _lstm_types(call: Call) -> Iterator[str]:
    for positions in ((0, _LSTM_HIDDEN, OUTPUT), (*_LSTM_WEIGHTS,), (*_LSTM_BIASES,)):
        names = {dtype(call, position) for position in positions}
        if len(names) > 1:
            yield f"takes data, weights and biases of one dtype each, not {listed(sorted(names))}"
    cell, data, weights = (dtype(call, position) for position in (_LSTM_CELL, 0, 1))
    if cell not in (FLOAT, INT16):
        yield f"takes float32 and int16 cell states, not {cell}"
    if data not in (FLOAT, *_INTEGERS):
        yield f"takes {listed((FLOAT, *_INTEGERS))}, not {data}"
    if data in _INTEGERS and weights != INT8:
        yield f"takes int8 weights with {data} data, not {weights}"


def _lstm_shapes(call: Call) -> Iterator[str]:
    data, result = shape_of(call.input(0)), shape_of(call.output())
    if len(data) != 3 or len(result) != 3 or data[:2] != result[:2]:
        yield "takes sequences of 3 dimensions"
        return
    units, batch = result[2], data[1] if call.op.attrs.get("time_major") else data[0]
    shapes = {
        **dict.fromkeys(range(1, 5), (units, data[2])),
        **dict.fromkeys(range(5, 9), (units, units)),
        **dict.fromkeys(_LSTM_BIASES, (units,)),
    }
    if any(shape_of(call.input(position)) != shape for position, shape in shapes.items()):
        yield "takes weights and biases whose shapes match"
    states = (call.input(position) for position in (_LSTM_HIDDEN, _LSTM_CELL))
    is_matrix = len(shape_of(call.input(_LSTM_HIDDEN))) == 2
    if not is_matrix or any(elements_of(state) != batch * units for state in states):
        yield "takes states whose shapes match"


def _lstm_scales(call: Call) -> Iterator[str]:
    """Its gates are fully connected layers of the data and of the hidden state."""
    if dtype(call) not in _INTEGERS:
        return
    for position in _LSTM_WEIGHTS:
        weights = call.input(position)
        count = 1 if weights.quant is None else scale_count(weights.quant)
        data = call.input(0 if position in _LSTM_WEIGHTS[:4] else _LSTM_HIDDEN)
        reason = _scale_axis(weights) if count > 1 else _product_scale(data, weights)
        if reason:
            yield reason


def _dropped_activation(call: Call) -> str | None:
    activation = call.op.attrs.get("activation")
    if not activation or dtype(call) not in _INTEGERS:
        return None
    return f"ignores its fused {activation}"


def _shifted_rows(call: Call) -> str | None:
    """Rows before the first output are dropped in steps of the stride, not one by one."""
    stride = call.op.attrs.get("stride")
    if dtype(call) != INT8 or stride is None:  # None if the file has no options
        return None
    data, weights, result = (shape_of(tensor) for tensor in (call.input(0), call.input(1), call.output()))
    if max(stride) <= 2 and data[3] > REVERSED_ABOVE:
        return None
    rows = -(-result[1] // stride[0])
    is_same = rows == data[1]  # padding "same"; "valid" has more rows
    padding = max(0, (rows - 1) * stride[0] + weights[1] - result[1]) // 2 if is_same else 0
    if padding % stride[0] == 0:
        return None
    return f"writes wrong rows with a stride of {stride[0]} and a filter of {weights[1]} rows"


def _groups(call: Call) -> str | None:
    is_grouped = dtype(call) == INT16 and call.op.attrs.get("groups", 1) > 1
    return "computes grouped convolutions of int16 data as ungrouped" if is_grouped else None


def _misread_bias(call: Call) -> str | None:
    return "reads its int32 bias as int64" if _bias_is_misread(call) else None


def _packed_weights(call: Call) -> str | None:
    is_packed = call.build.vectors == "mve" and _operands(call)[1].dtype.name == "int4"
    return "computed other values with int4 weights on an emulated Cortex-M55" if is_packed else None


def _forgotten_state(call: Call) -> str | None:
    return "starts every inference without state" if dtype(call) in _INTEGERS else None


def _lstm_fault(call: Call) -> str | None:
    is_integer = dtype(call) in _INTEGERS
    return "faults instead of reporting an error if the arena is too small" if is_integer else None


def _dense_fault(call: Call) -> str | None:
    data, weights = _operands(call)
    has_sums = call.build.vectors == "mve" and data.dtype.name == weights.dtype.name == INT8
    is_fault = has_sums and is_constant(weights)
    return "faults instead of reporting an error if the arena is too small" if is_fault else None


def _hybrid_lstm(call: Call) -> str | None:
    is_hybrid = dtype(call).startswith("float") and dtype(call, 1) == INT8
    return "reads its int8 weights as float32" if is_hybrid else None


def _of_images(caveat: Rule) -> Rule:
    """A caveat about data and outputs of four dimensions; the rules of the kernel are about others."""

    def rule(call: Call) -> str | None:
        is_image = call.has(1) and len(shape_of(call.input(0))) == 4 == len(shape_of(call.output()))
        return caveat(call) if is_image else None

    return rule


# cmsis_nn_lstm_gate; OpDataLSTM has 64-bit fields.
_GATE = "2i2p2i3pe"
_TWICE = (0, 1, -1)

KERNELS = (
    Kernel("CONV_2D", "own", KernelMemory("e2ie2ie", "9i2p3i|2i", requests.filters_at(0), _TWICE),
        (activation_range, _product_types, _same_output, rank(4, 4, 0, 1, OUTPUT), _convolution_shapes,
        *_channel_scales(0), only_cmsis_nn(only_for(INT16, symmetric(0, OUTPUT))), _convolution_bias,
        _multiplier), assumed_rules=(_product_types,),
        cmsis_nn=KernelMemory("e2ie2ie", "9i2p4i", requests.cmsis_nn_convolution, _TWICE),
        esp_nn=esp_nn.convolution, cmsis_nn_caveats=(_groups,), overlaps=overlaps.windows, strips="windows",
        counted_by="convolution"),
    Kernel("DEPTHWISE_CONV_2D", "2+", KernelMemory("e3ie2i", "9i2p3i|2i", requests.filters_at(3), _TWICE),
        (activation_range, _product_types, _depthwise_output, rank(4, 4, 0, 1, OUTPUT), *_channel_scales(3),
        only_cmsis_nn(only_for(INT16, symmetric(0, OUTPUT))), _wide_bias, _multiplier),
        assumed_rules=(_product_types,),
        cmsis_nn=KernelMemory("e3ie2i", "9i2p4i", requests.cmsis_nn_depthwise, _TWICE),
        esp_nn=esp_nn.depthwise, caveats=(_misread_bias,), cmsis_nn_caveats=(_packed_weights,),
        overlaps=overlaps.windows, strips="windows", counted_by="depthwise"),
    Kernel("TRANSPOSE_CONV", "own",
        KernelMemory("e2i2e", "16i2p|2i", requests.transposed_convolution,
            tensors=requests.transposed_convolution_tensors),
        (activation_range, _product_types, _same_output, rank(4, 4, 0, 1, OUTPUT), *_channel_scales(0),
        _transposed_bias, _wide_bias, _multiplier), assumed_rules=(_product_types,),
        cmsis_nn=KernelMemory("e2i2e", "17i2p", requests.cmsis_nn_transposed_convolution,
            tensors=requests.transposed_convolution_tensors), caveats=(_of_images(_misread_bias),),
        cmsis_nn_caveats=(_of_images(_dropped_activation), _of_images(_shifted_rows)),
        counted_by="transposed"),
    # The package on PyPI is newer than the sources of the boards, and its options have two more fields.
    Kernel("FULLY_CONNECTED", "own",
        KernelMemory("2e2be|pi", "9i2pb|2i", requests.fully_connected, overwrites=True),
        (activation_range, _product_types, _same_output, _dense, _dense_symmetric, _multiplier),
        assumed_rules=(_product_types,),
        cmsis_nn=KernelMemory("2e2be", "9i2pb2ip3i", requests.cmsis_nn_fully_connected, overwrites=True),
        esp_nn=esp_nn.no_scratch, caveats=(_misread_bias,), cmsis_nn_caveats=(_dense_fault,),
        overlaps=overlaps.fully_connected, counted_by="dense"),
    Kernel("BATCH_MATMUL", "2", KernelMemory("3b", "3p3b", requests.batch_matmul),
        (takes(FLOAT, *_INTEGERS), same_types(0, 1, OUTPUT), _matmul,
        only_for(INT16, symmetric(0, 1, OUTPUT)), _matmul_scales),
        cmsis_nn=KernelMemory("3b", "3p3b5i", requests.cmsis_nn_batch_matmul), counted_by="batches"),
    Kernel("SVDF", "own", KernelMemory("ieb", "9i", requests.svdf),
        (positive("rank", "rank"), takes(FLOAT, INT8), _svdf, _svdf_shapes),
        cmsis_nn=KernelMemory("ieb", "9ip", requests.cmsis_nn_svdf), counted_by="filters", is_portable=False),
    Kernel("UNIDIRECTIONAL_SEQUENCE_LSTM", "own", KernelMemory("e2i3b", "172i", requests.lstm),
        (_lstm,), cmsis_nn=KernelMemory("e2i3b", f"86l15i{4 * _GATE}", requests.cmsis_nn_lstm),
        caveats=(_hybrid_lstm,), cmsis_nn_caveats=(_forgotten_state, _lstm_fault), counted_by="gates"),
)  # fmt: skip
"""Convolutions, matrix products and recurrent layers."""
