"""What other tools count for an operator; each docstring says in which way it differs from a MAC."""

from __future__ import annotations

import math

from sizeup.conventions.seen import Formula, Seen
from sizeup.ops import Call

# Products


def macs(seen: Seen) -> float:
    """One for each multiply-accumulate, as we count."""
    return seen.macs


def macs_and_bias(seen: Seen) -> float:
    """One for each multiply-accumulate, and one more for each output number that a bias is added to."""
    return seen.macs + seen.made * seen.has_bias


def projections(seen: Seen) -> float:
    """The projections, and norms of a whole layer: the products inside the fused attention are not seen."""
    return rows(seen) * matrices(seen) + (2 * 5 * seen.read if seen.is_block else 0)


def projections_and_bias(seen: Seen) -> float:
    """The projections and their biases: the two products inside the fused attention are not seen."""
    biases = sum(seen.call.input(place).elements for place in _biases(seen))
    return rows(seen) * (matrices(seen) + biases)


def hooked_attention(seen: Seen) -> float:
    """All products, the biases, one for each number of Q to scale it and one for each score (softmax)."""
    if seen.is_block:
        return math.nan
    batch, length, width = seen.call.input(0).shape
    scores = batch * seen.call.number("heads") * length * length
    # The output projection is taken to have a bias, whether it has or not.
    biased = (3 * bool(_biases(seen)) + 1) * width
    return seen.macs + scores + batch * length * (width + biased)


def rows(seen: Seen) -> int:
    """Tokens of all sequences."""
    batch, length, _ = seen.call.input(0).shape
    return batch * length


def matrices(seen: Seen) -> int:
    """Numbers in all matrices of a layer."""
    return sum(seen.call.input(place).elements for place in seen.call.attrs["matrices"])


def _biases(seen: Seen) -> list[int]:
    return [place for place in seen.call.attrs["biases"] if seen.call.given(place)]


def over_strides(seen: Seen) -> float:
    """MACs divided by the strides, although the output that they are counted for is strided already."""
    return seen.macs / math.prod(strides(seen.call))


def strides(call: Call) -> tuple[int, ...]:
    """One stride for each side of the filter."""
    sides = len(call.output.shape) - 2
    given = call.attrs.get("stride") or 1
    found = (given,) * sides if isinstance(given, int) else tuple(given)
    return found * sides if len(found) == 1 else found


def second_dimensions(seen: Seen) -> float:
    """Batch x the second dimension of the input x that of the output: right for two dimensions alone."""
    read, made = seen.call.input(0).shape, seen.call.output.shape
    return read[0] * read[1] * made[1] if len(read) > 1 else seen.macs


def weights_over_positions(seen: Seen) -> float:
    """Weight and bias once for each position of the output: MACs, and one for each number with a bias."""
    batch, _, *sides = seen.call.output.shape
    return seen.params * batch * math.prod(sides) if seen.channels else 0


def weights_a_batch(seen: Seen) -> float:
    """Weight and bias once for each sample, however many positions each sample has."""
    return seen.params * seen.call.output.shape[0]


def output_channels(seen: Seen) -> float:
    """A transposed convolution as if it were a plain one: output numbers x taps x input channels."""
    taps = math.prod((seen.shape_of_weight or seen.call.input(1).shape)[2:])
    groups: int = seen.call.attrs.get("groups", 1)
    return seen.made * taps * (seen.channels // groups)


# Everything else


def _each(times: float, words: str, numbers: str) -> Formula:
    def formula(seen: Seen) -> float:
        return times * (seen.read if numbers == "input" else seen.made)

    formula.__doc__ = f"{words} for each {numbers} number, counted as if it were a MAC."
    return formula


one_an_input = _each(1, "One", "input")
four_an_output = _each(4, "Four", "output")


def scale_and_shift(seen: Seen) -> float:
    """Two for each number where the norm has a weight, one where it has none, counted as MACs."""
    return seen.read * (2 if seen.is_affine else 1)


def twice_scale_and_shift(seen: Seen) -> float:
    """Four for each number where the norm has a weight, two where it has none, counted as MACs."""
    return 2 * scale_and_shift(seen)


def five_a_number(seen: Seen) -> float:
    """Five for each number where the norm has a weight, four where it has none: a rough estimate."""
    return seen.read * (5 if seen.is_affine else 4)


def shift_of_norms(seen: Seen) -> float:
    """One for each number of a layer norm, two of other norms with a weight, counted as MACs."""
    return seen.read if seen.name in ("", "layer_norm", "layernormalization") else scale_and_shift(seen)


def twice_without_groups(seen: Seen) -> float:
    """Layer norms four for each number, two without a weight; group norms nothing."""
    return 0 if seen.name.startswith("group") else twice_scale_and_shift(seen)


def softmax_steps(seen: Seen) -> float:
    """An exponential and a division for each number, and a sum of each row, counted as MACs."""
    features = seen.call.input(0).shape[-1]
    return 3 * seen.read - seen.read // features


def pool_of_windows(seen: Seen) -> float:
    """One for each output number of an average; nothing for a maximum."""
    return 0 if "max" in seen.name else seen.made


def adaptive_average(seen: Seen) -> float:
    """A window's numbers and one division for each output number of an average; nothing for a maximum."""
    return 0 if "max" in seen.name else seen.read + seen.made


def adaptive_average_2d(seen: Seen) -> float:
    """One for each input number of a two-dimensional average."""
    return seen.read if seen.name in ("", "adaptive_avg_pool2d", "globalaveragepool") else 0


def interpolation_2d(seen: Seen) -> float:
    """One (nearest) or four (bilinear) for each output number of an image."""
    return {1: 1, 4: 4}.get(seen.call.attrs.get("taps", 4), 0) * seen.made


def interpolation_steps(seen: Seen) -> float:
    """The sums and products of an interpolation for each output number: 1, 5, 11 or 259 by its taps."""
    return {1: 1, 2: 5, 4: 11, 16: 259}.get(seen.call.attrs.get("taps", 4), 0) * seen.made


def as_layer(formula: Formula, also: tuple[str, ...] = ()) -> Formula:
    """A formula for layers, and for functions of those names; other functions count nothing."""

    def limited(seen: Seen) -> float:
        return formula(seen) if seen.is_plain or seen.name in also else 0

    limited.__doc__ = f"{formula.__doc__} Nothing where no layer of PyTorch's own runs it."
    return limited


def twice_as_layer(seen: Seen) -> float:
    """One for each number, and again for the function that the layer calls: counted twice."""
    return (2 if seen.is_plain else 1) * seen.read


def twice_an_output_as_layer(seen: Seen) -> float:
    """One for each output number, and again for the function that the layer calls: counted twice."""
    return (2 if seen.is_plain else 1) * seen.made


# Numbers moved


def product_reads(seen: Seen) -> float:
    """Data, weight, and bias where there is one."""
    return seen.read + seen.params


def operand_reads(seen: Seen) -> float:
    """Every operand once."""
    return sum(value.elements for value in seen.call.inputs if value is not None)


def first_input(seen: Seen) -> float:
    """The data alone, without the parameters."""
    return seen.read


def first_two_inputs(seen: Seen) -> float:
    """The data and the grid."""
    return seen.read + seen.call.input(1).elements


def first_output(seen: Seen) -> float:
    """The output."""
    return seen.made


def projection_reads(seen: Seen) -> float:
    """Data and weights of the projections; what the fused attention moves is not seen."""
    shapes = [seen.call.input(place).shape for place in seen.call.attrs["matrices"]]
    biases = sum(seen.call.input(place).elements for place in _biases(seen))
    return rows(seen) * sum(shape[1] for shape in shapes) + matrices(seen) + biases


def projection_writes(seen: Seen) -> float:
    """Outputs of the projections."""
    return rows(seen) * sum(seen.call.input(place).shape[0] for place in seen.call.attrs["matrices"])


def parameters_alone(seen: Seen) -> float:
    """Weight and bias, but not the data."""
    return seen.params


def output_and_channels(seen: Seen) -> float:
    """As many numbers as it makes, and two for each channel."""
    return seen.made + 2 * seen.channels


def data_and_slopes(seen: Seen) -> float:
    """The data, and the slopes of a PReLU."""
    return seen.read + seen.params
