"""Recurrent layers: which inputs are matrices, over which axes they step, how many units they have."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sizeup.formats.tflite.node import Node

# The order of inputs, from LiteRT's kernels. One direction of an LSTM: four input matrices, four
# recurrent ones, three peepholes, four biases, a projection and its bias. Matrices of gates that
# are coupled or not used are absent.
_LSTM_MATRICES = (*range(1, 9), 16)
_BACKWARD = 17  # the second direction's inputs follow the first's
_AUXILIARY = range(40, 48)
_OUTPUT_GATE = 4


def _layer(node: Node, matrices: Iterable[int], unit_matrices: Iterable[int]) -> None:
    """All axes but the last are stepped over: the batch and, in sequences, time before or behind it."""
    sequence, units = node.shape(0), 0
    if sequence is not None and len(sequence) < 2:
        node.fail(f"a sequence of the shape {sequence}")
    for position in unit_matrices:
        shape = node.shape(position)
        units += shape[0] if shape else 0
    node.attrs.update(
        rows=tuple(range(len(sequence or ()) - 1)),
        matrices=tuple(position for position in matrices if node.has(position)),
        units=units,
    )


def _lstm(node: Node) -> None:
    """One step on (batch, in). The basic kernel joins all matrices in one of (4 x units, in + units)."""
    options = node.options("LSTMOptions")
    if len(node.inputs) == 5 and (options is None or options.KernelType() == 1):
        _layer(node, (2,), (2,))
        node.attrs["units"] //= 4
    else:
        _layer(node, _LSTM_MATRICES, (_OUTPUT_GATE,))


def _sequence_lstm(node: Node) -> None:
    _layer(node, _LSTM_MATRICES, (_OUTPUT_GATE,))
    options = node.options("UnidirectionalSequenceLSTMOptions")
    node.attrs["time_major"] = bool(options is not None and options.TimeMajor())


def _bidirectional_lstm(node: Node) -> None:
    backward = tuple(position + _BACKWARD for position in _LSTM_MATRICES)
    matrices = (*_LSTM_MATRICES, *backward, *_AUXILIARY)
    _layer(node, matrices, (_OUTPUT_GATE, _OUTPUT_GATE + _BACKWARD))
    options = node.options("BidirectionalSequenceLSTMOptions")
    # The schema's default, kept for files older than the field.
    node.attrs["time_major"] = options is None or bool(options.TimeMajor())


def _rnn(node: Node) -> None:
    """One step on (batch, in): input matrix, recurrent matrix, bias, state."""
    _layer(node, (1, 2), (1,))


def _sequence_rnn(node: Node) -> None:
    _layer(node, (1, 2), (1,))
    options = node.options("SequenceRNNOptions")
    node.attrs["time_major"] = bool(options is not None and options.TimeMajor())


def _bidirectional_rnn(node: Node) -> None:
    """Matrices of the two directions at 1, 2 and 5, 6; those of an auxiliary input at 10 and 11."""
    _layer(node, (1, 2, 5, 6, 10, 11), (1, 5))
    options = node.options("BidirectionalSequenceRNNOptions")
    node.attrs["time_major"] = bool(options is not None and options.TimeMajor())


NORMALISERS: dict[str, Callable[[Node], None]] = {
    "LSTM": _lstm,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _sequence_lstm,
    "BIDIRECTIONAL_SEQUENCE_LSTM": _bidirectional_lstm,
    "RNN": _rnn,
    "UNIDIRECTIONAL_SEQUENCE_RNN": _sequence_rnn,
    "BIDIRECTIONAL_SEQUENCE_RNN": _bidirectional_rnn,
}
