"""The formulas of other tools. Docstrings are shown to users and state the difference from our MACs."""

from __future__ import annotations

import math

from sizeup.conventions.observed_op import Formula, ObservedOp
from sizeup.ops import Call

# Products


def macs(op: ObservedOp) -> float:
    """One per multiply-accumulate, as sizeup counts."""
    return op.macs


def macs_and_bias(op: ObservedOp) -> float:
    """One per multiply-accumulate, and one per output element with a bias."""
    return op.macs + op.output_elements * op.has_bias


def projections(op: ObservedOp) -> float:
    """Projections, and norms of an encoder layer: the products inside the fused attention are not counted."""
    return rows(op) * matrices(op) + (2 * 5 * op.input_elements if op.is_encoder_layer else 0)


def projections_and_bias(op: ObservedOp) -> float:
    """Projections and their biases: the two products inside the fused attention are not counted."""
    biases = sum(op.call.input(position).elements for position in _biases(op))
    return rows(op) * (matrices(op) + biases)


def hooked_attention(op: ObservedOp) -> float:
    """All products, the biases, one per element of Q (scaling) and one per score (softmax)."""
    if op.is_encoder_layer:
        return math.nan
    batch, length, width = op.call.input(0).shape
    scores = batch * op.call.number("heads") * length * length
    # The tool assumes that the output projection has a bias.
    biased = (3 * bool(_biases(op)) + 1) * width
    return op.macs + scores + batch * length * (width + biased)


def rows(op: ObservedOp) -> int:
    """The number of tokens in all sequences."""
    batch, length, _ = op.call.input(0).shape
    return batch * length


def matrices(op: ObservedOp) -> int:
    """The number of elements in all matrices of a layer."""
    return sum(op.call.input(position).elements for position in op.call.attrs["matrices"])


def _biases(op: ObservedOp) -> list[int]:
    return [position for position in op.call.attrs["biases"] if op.call.has_input(position)]


def over_strides(op: ObservedOp) -> float:
    """MACs divided by the strides, although they are counted for the strided output already."""
    return op.macs / math.prod(strides(op.call))


def strides(call: Call) -> tuple[int, ...]:
    """One stride per spatial dimension."""
    sides = len(call.output.shape) - 2
    stride = call.attrs.get("stride") or 1
    per_side = (stride,) * sides if isinstance(stride, int) else tuple(stride)
    return per_side * sides if len(per_side) == 1 else per_side


def second_dimensions(op: ObservedOp) -> float:
    """Batch x second dimension of the input x second dimension of the output: correct only in 2-D."""
    input_shape, output_shape = op.call.input(0).shape, op.call.output.shape
    return input_shape[0] * input_shape[1] * output_shape[1] if len(input_shape) > 1 else op.macs


def weights_over_positions(op: ObservedOp) -> float:
    """Weight and bias once per output position: MACs, and one per output element with a bias."""
    batch, _, *sides = op.call.output.shape
    return op.params * batch * math.prod(sides) if op.channels else 0


def weights_per_sample(op: ObservedOp) -> float:
    """Weight and bias once per sample, regardless of its number of positions."""
    return op.params * op.call.output.shape[0]


def output_channels(op: ObservedOp) -> float:
    """A transposed convolution counted as a regular one: output elements x taps x input channels."""
    taps = math.prod((op.shape_of_weight or op.call.input(1).shape)[2:])
    groups: int = op.call.attrs.get("groups", 1)
    return op.output_elements * taps * (op.channels // groups)


# Other op kinds


def _per_element(times: float, words: str, numbers: str) -> Formula:
    def formula(op: ObservedOp) -> float:
        return times * (op.input_elements if numbers == "input" else op.output_elements)

    formula.__doc__ = f"{words} per {numbers} element, counted as MACs."
    return formula


one_per_input = _per_element(1, "One", "input")
four_per_output = _per_element(4, "Four", "output")


def scale_and_shift(op: ObservedOp) -> float:
    """Two per element if the norm has a weight, else one, counted as MACs."""
    return op.input_elements * (2 if op.is_affine else 1)


def twice_scale_and_shift(op: ObservedOp) -> float:
    """Four per element if the norm has a weight, else two, counted as MACs."""
    return 2 * scale_and_shift(op)


def five_per_element(op: ObservedOp) -> float:
    """Five per element if the norm has a weight, else four: a rough estimate."""
    return op.input_elements * (5 if op.is_affine else 4)


def shift_of_norms(op: ObservedOp) -> float:
    """One per element of a layer norm, two for other norms with a weight, counted as MACs."""
    return op.input_elements if op.name in ("", "layer_norm", "layernormalization") else scale_and_shift(op)


def twice_without_groups(op: ObservedOp) -> float:
    """Four per element of a layer norm, two without a weight; 0 for group norms."""
    return 0 if op.name.startswith("group") else twice_scale_and_shift(op)


def softmax_steps(op: ObservedOp) -> float:
    """An exponential and a division per element, and a sum per row, counted as MACs."""
    features = op.call.input(0).shape[-1]
    return 3 * op.input_elements - op.input_elements // features


def pool_of_windows(op: ObservedOp) -> float:
    """One per output element of an average; 0 for a maximum."""
    return 0 if "max" in op.name else op.output_elements


def adaptive_average(op: ObservedOp) -> float:
    """The input elements and one division per output element of an average; 0 for a maximum."""
    return 0 if "max" in op.name else op.input_elements + op.output_elements


def adaptive_average_2d(op: ObservedOp) -> float:
    """One per input element of a two-dimensional average."""
    return op.input_elements if op.name in ("", "adaptive_avg_pool2d", "globalaveragepool") else 0


def interpolation_2d(op: ObservedOp) -> float:
    """One (nearest) or four (bilinear) per output element of an image."""
    return {1: 1, 4: 4}.get(op.call.attrs.get("taps", 4), 0) * op.output_elements


def interpolation_steps(op: ObservedOp) -> float:
    """The additions and multiplications per output element: 1, 5, 11 or 259, by the number of taps."""
    return {1: 1, 2: 5, 4: 11, 16: 259}.get(op.call.attrs.get("taps", 4), 0) * op.output_elements


def as_layer(formula: Formula, also: tuple[str, ...] = ()) -> Formula:
    """A formula for layers and for functions named in `also`; other functions count 0."""

    def limited(op: ObservedOp) -> float:
        return formula(op) if op.is_plain or op.name in also else 0

    limited.__doc__ = f"{formula.__doc__} Not counted unless one of PyTorch's own layers runs it."
    return limited


def twice_as_layer(op: ObservedOp) -> float:
    """One per element, counted twice: for the layer and for the function that it calls."""
    return (2 if op.is_plain else 1) * op.input_elements


def twice_per_output_as_layer(op: ObservedOp) -> float:
    """One per output element, counted twice: for the layer and for the function that it calls."""
    return (2 if op.is_plain else 1) * op.output_elements


# Elements moved


def product_reads(op: ObservedOp) -> float:
    """Data, weight, and bias if any."""
    return op.input_elements + op.params


def operand_reads(op: ObservedOp) -> float:
    """Every operand once."""
    return sum(value.elements for value in op.call.inputs if value is not None)


def first_input(op: ObservedOp) -> float:
    """The data without the parameters."""
    return op.input_elements


def first_two_inputs(op: ObservedOp) -> float:
    """The data and the grid."""
    return op.input_elements + op.call.input(1).elements


def first_output(op: ObservedOp) -> float:
    """The output."""
    return op.output_elements


def projection_reads(op: ObservedOp) -> float:
    """Data and weights of the projections; the traffic inside the fused attention is not counted."""
    shapes = [op.call.input(position).shape for position in op.call.attrs["matrices"]]
    biases = sum(op.call.input(position).elements for position in _biases(op))
    return rows(op) * sum(shape[1] for shape in shapes) + matrices(op) + biases


def projection_writes(op: ObservedOp) -> float:
    """Outputs of the projections."""
    return rows(op) * sum(op.call.input(position).shape[0] for position in op.call.attrs["matrices"])


def parameters_only(op: ObservedOp) -> float:
    """Weight and bias, without the data."""
    return op.params


def output_and_channels(op: ObservedOp) -> float:
    """The output elements, and two per channel."""
    return op.output_elements + 2 * op.channels


def data_and_slopes(op: ObservedOp) -> float:
    """The data, and the slopes of a PReLU."""
    return op.input_elements + op.params
