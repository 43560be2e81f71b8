"""Recurrent layers. Every weight matrix is applied once per step of every sequence.

Inputs: the sequence, then states, matrices and biases in the format's order. The attribute `matrices` lists
the inputs that are matrices, `rows` the axes of the first input whose product is steps x batch.
"""

from __future__ import annotations

import math

from sizeup.graph import Dim
from sizeup.ops.cost_rule import Call, Formula, names, op_rule
from sizeup.ops.formulas import bias_additions


def _rows(call: Call) -> Dim:
    shape = call.input(0).shape
    return math.prod(shape[axis] for axis in call.attrs["rows"])


def _matrix_elements(call: Call) -> Dim:
    return sum(call.input(index).elements for index in call.attrs["matrices"])


def gates(per_unit: int) -> Formula:
    """Elementwise operations of a cell: `per_unit` per hidden unit, step and direction."""

    def formula(call: Call) -> Dim:
        return per_unit * _rows(call) * call.number("units")

    return formula


# Per hidden unit, with biases. LSTM: four gates of (2 sums, 1 activation), c = f c + i g (3),
# h = o tanh(c) (2). GRU: three such gates, r times the candidate (1), the interpolation (3).
@op_rule(
    "lstm",
    family="recurrent",
    torch=names("aten.lstm aten.lstm_cell aten.quantized_lstm quantized.quantized_lstm_cell_dynamic"),
    onnx=names("LSTM com.microsoft::DynamicQuantizeLSTM"),
    tflite=names("LSTM UNIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_LSTM"),
    elementwise=gates(17),
    traits=(
        "blas",
        "weight_rows",
    ),
)
def lstm(call: Call) -> Dim:
    """Steps x batch x elements of the input, recurrent and projection matrices."""
    return _rows(call) * _matrix_elements(call)


@op_rule(
    "gru",
    family="recurrent",
    torch=names("aten.gru aten.gru_cell aten.quantized_gru quantized.quantized_gru_cell_dynamic"),
    onnx=names("GRU"),
    elementwise=gates(13),
    traits=(
        "blas",
        "weight_rows",
    ),
)
def gru(call: Call) -> Dim:
    """Steps x batch x elements of the input and recurrent matrices."""
    return _rows(call) * _matrix_elements(call)


@op_rule(
    "rnn",
    family="recurrent",
    torch=names(
        "aten.rnn_tanh aten.rnn_relu aten.rnn_tanh_cell aten.rnn_relu_cell"
        " quantized.quantized_rnn_tanh_cell_dynamic quantized.quantized_rnn_relu_cell_dynamic"
    ),
    onnx=names("RNN"),
    tflite=names("RNN UNIDIRECTIONAL_SEQUENCE_RNN BIDIRECTIONAL_SEQUENCE_RNN"),
    elementwise=gates(3),
    traits=(
        "blas",
        "weight_rows",
    ),
)
def rnn(call: Call) -> Dim:
    """Steps x batch x elements of the input and recurrent matrices."""
    return _rows(call) * _matrix_elements(call)


def _sum_of_ranks(call: Call) -> Dim:
    """The filters of a unit are summed (filters - units additions per row), then a bias is added."""
    filters = call.input(0).shape[0] * call.input(1).shape[0]
    return filters - call.output.elements + bias_additions(3)(call)


@op_rule("svdf", family="recurrent", tflite=names("SVDF"), weight=1, elementwise=_sum_of_ranks)
def svdf(call: Call) -> Dim:
    """Per batch row: a filter over the features, then one over the stored time steps."""
    return call.input(0).shape[0] * (call.input(1).elements + call.input(2).elements)
