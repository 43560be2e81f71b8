"""Every kind of operator in small, with numbers worked out by hand.

Shapes are written as people write them, inputs apart by commas: "1x3x8x8, 4x3x3x3, -" has a third
input that is absent; "()" is a scalar. `reads` and `writes` are elements, one number per tensor that is
touched at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One operator, and what it must cost."""

    kind: str
    inputs: tuple[tuple[int, ...] | None, ...]
    outputs: tuple[tuple[int, ...], ...]
    attrs: Mapping[str, Any]
    macs: int
    elementwise: int
    reads: Sequence[int]
    writes: Sequence[int]


def _shapes(text: str) -> list[tuple[int, ...] | None]:
    return [
        None if each == "-" else tuple(int(size) for size in each.strip("()").split("x") if size)
        for each in text.replace(" ", "").split(",")
        if each
    ]


def row(
    kind: str,
    inputs: str,
    outputs: str,
    *,
    macs: int = 0,
    elementwise: int = 0,
    reads: Sequence[int],
    writes: Sequence[int],
    **attrs: Any,
) -> Row:
    made = tuple(shape for shape in _shapes(outputs) if shape is not None)
    return Row(kind, tuple(_shapes(inputs)), made, attrs, macs, elementwise, reads, writes)


def one_for_each(kinds: str, *, operations: int = 1) -> list[Row]:
    """Plain operators on 2x3 numbers."""
    return [
        row(kind, "2x3", "2x3", elementwise=operations * 6, reads=[6], writes=[6]) for kind in kinds.split()
    ]


def visiting(kinds: str, *, operations: int = 1) -> list[Row]:
    """Reductions of 4x5 numbers to 4."""
    return [
        row(kind, "4x5", "4", elementwise=operations * 20, reads=[20], writes=[4]) for kind in kinds.split()
    ]


CONVOLUTIONS = [
    # 4 filters of 3 channels x 3x3 on 6x6 positions: 144 numbers of 27 products each.
    row(
        "conv", "1x3x8x8, 4x3x3x3, 4", "1x4x6x6", out_channels=4,
        macs=3_888, elementwise=144, reads=[192, 108, 4], writes=[144],
    ),
    # Without a bias there is nothing to add.
    row(
        "conv", "1x3x8x8, 4x3x3x3", "1x4x6x6", out_channels=4,
        macs=3_888, reads=[192, 108], writes=[144],
    ),
    # Depthwise, TFLite's layout: 8 channels of 9 taps on 5x5 positions, weights (1, 3, 3, 8).
    row(
        "conv", "1x5x5x8, 1x3x3x8, 8", "1x5x5x8", out_channels=8,
        macs=1_800, elementwise=200, reads=[200, 72, 8], writes=[200],
    ),
    # Two groups: every filter sees 2 of the 4 channels; a fused activation visits each output number.
    row(
        "conv", "2x4x6, 6x2x3, -", "2x6x4", out_channels=6, groups=2, activation="relu",
        macs=48 * 6, elementwise=48, reads=[48, 36], writes=[48],
    ),
    # 3x4x4 input numbers, each spread over 5 channels of 2x2 taps.
    row(
        "conv_transpose", "1x3x4x4, 3x5x2x2, 5", "1x5x8x8", in_channels=3,
        macs=960, elementwise=320, reads=[48, 60, 5], writes=[320],
    ),
    # 16 positions x 2 channels x 9 taps = 288 bilinear samples of 7 operations, whatever the number of
    # filters; 64 bias additions. The products are those of a convolution: 64 numbers x 18.
    row(
        "deform_conv", "1x2x4x4, 4x2x3x3, 4, 1x18x4x4", "1x4x4x4", out_channels=4,
        macs=1_152, elementwise=288 * 7 + 64, reads=[32, 72, 4, 288], writes=[64],
    ),
    # Two groups of one channel: still 288 samples, each with a mask's product; half the products.
    row(
        "deform_conv", "1x2x4x4, 4x1x3x3, -, 1x18x4x4, 1x9x4x4", "1x4x4x4", out_channels=4, groups=2,
        macs=576, elementwise=288 * 8, reads=[32, 36, 288, 144], writes=[64],
    ),
]  # fmt: skip

PRODUCTS = [
    # 128 tokens, 256 to 256: 128 x 256 x 256.
    row(
        "matmul", "1x128x256, 256x256", "1x128x256", contracted=(-1,),
        macs=8_388_608, reads=[32_768, 65_536], writes=[32_768],
    ),
    row(
        "matmul", "2x3, 4x3, 4", "2x4", contracted=(1,),
        macs=24, elementwise=8, reads=[6, 12, 4], writes=[8],
    ),
    # Batched, transposed on the left: 5 x (4x3)^T (4x2).
    row("matmul", "5x4x3, 5x4x2", "5x3x2", contracted=(1,), macs=120, reads=[60, 40], writes=[30]),
    # A sum over the batch too (addbmm): 3x2 numbers of 5 x 4 products.
    row("matmul", "5x3x4, 5x4x2", "3x2", contracted=(0, -1), macs=120, reads=[60, 40], writes=[6]),
    # 7 stored elements of a sparse 5x6 matrix, each times a row of 4; and an addend.
    row(
        "sparse_matmul", "5x6, 6x4, 5x4", "5x4", stored=7, columns=4,
        macs=28, elementwise=20, reads=[7, 24, 20], writes=[20],
    ),
    # 10 rows of 4 meet one of 3 matrices 4x5 each.
    row("grouped_matmul", "10x4, 3x4x5, 3", "10x5", macs=200, reads=[40, 60, 3], writes=[50]),
    # Three groups share out an inner dimension of 10: 2x5 numbers sum over all 10 together.
    row("grouped_matmul", "2x10, 10x5, 3", "3x2x5", macs=100, reads=[20, 50, 3], writes=[30]),
    # 2 samples x 4 features: x1 W is 3x5 products, the dot with x2 5 more.
    row(
        "bilinear", "2x3, 2x5, 4x3x5, 4", "2x4",
        macs=2 * 4 * (15 + 5), elementwise=8, reads=[6, 10, 60, 4], writes=[8],
    ),
    row(
        "einsum", "2x3x4, 4x5", "2x3x5", terms=["bld", "de"], result="ble",
        macs=120, reads=[24, 20], writes=[30],
    ),
    # ab,bc,cd->ad left to right: 2x3x4, then 2x4x5.
    row(
        "einsum", "2x3, 3x4, 4x5", "2x5", terms=["ab", "bc", "cd"], result="ad",
        macs=24 + 40, reads=[6, 12, 20], writes=[10],
    ),
    # k belongs to the second operand alone and is summed before: 2x3 products remain.
    row(
        "einsum", "2x3, 3x7", "2x3", terms=["ij", "jk"], result="ij",
        macs=6, reads=[6, 21], writes=[6],
    ),
    # A side of one broadcasts.
    row(
        "einsum", "1x4, 5x4x6", "5x6", terms=["ab", "abc"], result="ac",
        macs=120, reads=[4, 120], writes=[30],
    ),
    # One operand: no product; a transposition moves, a sum adds.
    row("einsum", "3x4", "4x3", terms=["ij"], result="ji", reads=[12], writes=[12]),
    row("einsum", "3x4", "3", terms=["ij"], result="i", elementwise=12, reads=[12], writes=[3]),
    # 2x4 heads, 6 queries, 10 keys of 8 numbers, values of 5: 48 x 10 x (8 + 5); six steps a score.
    row(
        "attention", "2x4x6x8, 2x4x10x8, 2x4x10x5", "2x4x6x5",
        macs=6_240, elementwise=480 * 6, reads=[384, 640, 400], writes=[240],
    ),
    # A mask is one addition more; keys shared by all 4 heads (1) change no product.
    row(
        "attention", "1x4x6x8, 1x1x6x8, 1x1x6x8, 6x6", "1x4x6x8",
        macs=24 * 6 * 16, elementwise=144 * 7, reads=[192, 48, 48, 36], writes=[192],
    ),
    # ONNX's flat form: 4 heads of 2 side by side, 2 of keys and values, 3 keys remembered before 5 new.
    row(
        "attention", "1x5x8, 1x5x4, 1x5x4", "1x5x8", heads=4, kv_heads=2, past=3,
        macs=20 * 8 * (2 + 2), elementwise=160 * 6, reads=[40, 20, 20], writes=[40],
    ),
    # One new token of 2 heads meets itself and 7 remembered keys: 2 x 8 x (4 + 4).
    row(
        "attention", "1x2x1x4, 1x2x1x4, 1x2x1x4, -, 1x2x7x4, 1x2x7x4", "1x2x1x4", cached=4,
        macs=128, elementwise=96, reads=[8, 8, 8, 56, 56], writes=[8],
    ),
    # Queries, keys and values of 4 heads of 5 in one tensor: 2 x 3 x 4 rows, 3 keys.
    row(
        "attention", "2x3x4x3x5", "2x3x20", sizes=(24, 3, 5, 5),
        macs=24 * 3 * 10, elementwise=24 * 3 * 6, reads=[360], writes=[120],
    ),
    # Sequences of 2 and 3 tokens, one after another, 2 heads of 4: 2 x (4 + 9) scores, each with a function.
    row(
        "attention", "5x2x4, 5x2x4, 5x2x4", "5x2x4", sizes=(26, 1, 4, 4), score_functions=1,
        macs=26 * 8, elementwise=26 * 7, reads=[40, 40, 40], writes=[40],
    ),
    # 2 sequences of 3 tokens: 6 x 4 x 12 for the projection, 6 x 3 x (4 + 4) for attention;
    # 2 heads x 2 x 3 x 3 scores of 6 steps, and 6 x 12 biases.
    row(
        "fused_attention", "2x3x4, 4x12, 12", "2x3x4", heads=2,
        macs=288 + 144, elementwise=36 * 6 + 72, reads=[24, 48, 12], writes=[24],
    ),
    row(
        "fused_attention", "2x3x4, 4x12, -, 2x3", "2x3x4", heads=2, key_width=4,
        macs=288 + 144, elementwise=36 * 7, reads=[24, 48, 6], writes=[24],
    ),
    # With 5 tokens before, every query meets 8 keys.
    row(
        "fused_attention", "2x3x4, 4x12", "2x3x4", heads=2, past=5,
        macs=288 + 6 * 8 * 8, elementwise=96 * 6, reads=[24, 48], writes=[24],
    ),
    # 6 tokens of width 4 meet 48 + 16 weights and, in two products, 3 tokens of their sequence;
    # 2 heads x 6 x 3 scores of 6 steps, and 16 biases a token.
    row(
        "attention_layer", "2x3x4, 12x4, 4x4, 12, 4", "2x3x4",
        heads=2, matrices=(1, 2), biases=(3, 4), hidden=0,
        macs=6 * (64 + 24), elementwise=216 + 96, reads=[24, 48, 16, 12, 4], writes=[24],
    ),
    # The whole layer: 64 weights and 12 biases more, an activation of 8, two norms of 7 steps, two sums.
    row(
        "attention_layer", "2x3x4, 12x4, 4x4, 8x4, 4x8, 12, 4, 8, 4, -, 4, 4, 4, 4", "2x3x4",
        heads=2, matrices=(1, 2, 3, 4), biases=(5, 6, 7, 8), hidden=8,
        macs=6 * (128 + 24), elementwise=216 + 168 + 6 * (8 + 14 * 4 + 2 * 4),
        reads=[24, 48, 16, 32, 32, 12, 4, 8, 4, 4, 4, 4, 4], writes=[24],
    ),
]  # fmt: skip

RECURRENT = [
    # 100 steps, 64 to 64, four gates: 100 x (256x64 + 256x64).
    row(
        "lstm", "100x1x64, 1x1x64, 1x1x64, 256x64, 256x64", "100x1x64, 1x1x64, 1x1x64",
        rows=(0, 1), matrices=(3, 4), units=64,
        macs=3_276_800, elementwise=17 * 6_400, reads=[6_400, 64, 64, 16_384, 16_384], writes=[6_400, 64, 64],
    ),
    row(
        "gru", "5x2x3, 12x3, 12x4, 12, 12", "5x2x4", rows=(0, 1), matrices=(1, 2), units=4,
        macs=10 * (36 + 48), elementwise=13 * 40, reads=[30, 36, 48, 12, 12], writes=[40],
    ),
    # A cell: one step, so the batch alone makes the rows.
    row(
        "rnn", "2x3, 2x4, 4x3, 4x4", "2x4", rows=(0,), matrices=(2, 3), units=4,
        macs=2 * (12 + 16), elementwise=3 * 8, reads=[6, 8, 12, 16], writes=[8],
    ),
    # 6 filters over 5 features, then over 4 steps; 2 filters a unit: 3 sums a row and 3 biases.
    row(
        "svdf", "2x5, 6x5, 6x4, 3, 2x24", "2x3",
        macs=2 * (30 + 24), elementwise=6 + 6, reads=[10, 30, 24, 3, 48], writes=[6],
    ),
]  # fmt: skip

PLAIN = [
    *one_for_each(
        "pointwise add sub mul div remainder pow square neg abs sign sqrt rsqrt reciprocal exp log erf floor"
        " ceil round clamp cbrt angle sin cos tan asin acos atan hyperbolic tanh relu relu6 leaky_relu prelu"
        " elu threshold sigmoid hardsigmoid hardswish silu gelu mish softplus softsign compare logical"
        " bitwise where is_special triangle bucketize cast complex_part dropout"
    ),
    *one_for_each("squared_difference quantize dequantize", operations=2),
    *one_for_each("addcmul lerp rotary", operations=3),
    *one_for_each("fake_quantize dynamic_quantize", operations=4),
    # Broadcast: the output decides.
    row("add", "4x1, 1x5", "4x5", elementwise=20, reads=[4, 5], writes=[20]),
    # An outer product, and one that is added to a matrix.
    row("outer", "3, 4", "3x4", elementwise=12, reads=[3, 4], writes=[12]),
    row("outer", "3x4, 3, 4", "3x4", elementwise=24, reads=[12, 3, 4], writes=[12]),
    # Cast like another tensor, of which only the type is asked.
    row("cast", "2x3, 100", "2x3", elementwise=6, reads=[6], writes=[6]),
    row("gelu", "2x3, 3", "2x3", elementwise=12, reads=[6, 3], writes=[6]),
    # Half of the input gates the other half: a sigmoid and a product.
    row("glu", "2x6", "2x3", elementwise=12, reads=[12], writes=[6]),
    # Three tensors are summed in two steps; their mean takes a quotient more.
    row("sum_n", "2x3, 2x3, 2x3", "2x3", elementwise=12, reads=[6, 6, 6], writes=[6]),
    row("mean_n", "2x3, 2x3, 2x3", "2x3", elementwise=18, reads=[6, 6, 6], writes=[6]),
    row("maximum", "2x3, 3", "2x3", elementwise=6, reads=[6, 3], writes=[6]),
    row("minimum", "2x3, 2x3, 2x3", "2x3", elementwise=12, reads=[6, 6, 6], writes=[6]),
]

REDUCTIONS = [
    *visiting("sum mean max min prod any argmax count_nonzero segment sort global_pool fold"),
    *visiting("min_max norm_reduction", operations=2),
    *visiting("variance", operations=3),
    *visiting("logsumexp", operations=4),
    row("reduce", "4x5, ()", "4", operations=3, elementwise=60, reads=[20, 1], writes=[4]),
    # A region of two operations, such as a comparison and a choice, and the value that it starts from.
    row("reduce", "4x5, ()", "4", operations=2, elementwise=40, reads=[20, 1], writes=[4]),
    row("cumulate", "4x5", "4x5", elementwise=20, reads=[20], writes=[20]),
    # 3x3 windows: 9 visits for each of 2x4x4 numbers; without a window each input number once.
    row("pool", "1x2x8x8", "1x2x4x4", taps=9, elementwise=288, reads=[128], writes=[32]),
    row("pool", "1x2x8x8", "1x2x1x1", elementwise=128, reads=[128], writes=[2]),
    row("batch_norm", "1x3x4x4, 3, 3, 3, 3", "1x3x4x4", elementwise=96, reads=[48, 3, 3, 3, 3], writes=[48]),
    # Five operations for each of 48 numbers, a scale and a shift.
    row(
        "batch_norm_training",
        "1x3x4x4, 3, 3, 3, 3",
        "1x3x4x4",
        elementwise=336,
        reads=[48, 3, 3, 3, 3],
        writes=[48],
    ),
    row("layer_norm", "2x8, 8, 8", "2x8", elementwise=112, reads=[16, 8, 8], writes=[16]),
    row("layer_norm", "2x8", "2x8", elementwise=80, reads=[16], writes=[16]),
    row("skip_layer_norm", "2x8, 2x8, 8, 8", "2x8", elementwise=128, reads=[16, 16, 8, 8], writes=[16]),
    row(
        "skip_layer_norm", "2x8, 2x8, 8, -, 8", "2x8", elementwise=128, reads=[16, 16, 8, 8], writes=[16]
    ),
    # 3 tokens of 4 numbers: of each table 3 rows; two sums, five steps, scale and shift.
    row(
        "embed_layer_norm", "1x3, 1x3, 100x4, 10x4, 2x4, 4, 4", "1x3x4",
        elementwise=12 * 9, reads=[3, 3, 12, 12, 12, 4, 4], writes=[12],
    ),
    row("skip_rms_norm", "2x8, 2x8, 8", "2x8", elementwise=80, reads=[16, 16, 8], writes=[16]),
    row("skip_rms_norm", "2x8, 2x8, 8, 8", "2x8", elementwise=96, reads=[16, 16, 8, 8], writes=[16]),
    row("rms_norm", "2x8, 8", "2x8", elementwise=64, reads=[16, 8], writes=[16]),
    row("rms_norm", "2x8", "2x8", elementwise=48, reads=[16], writes=[16]),
    row("weight_norm", "4x6, 4x1", "4x6, 4x1", elementwise=72, reads=[24, 4], writes=[24, 4]),
    row("l2_norm", "2x8", "2x8", elementwise=48, reads=[16], writes=[16]),
    # A square, four sums of five squares, a scale, a shift, a power, a quotient.
    row("local_response_norm", "1x8x2x2", "1x8x2x2", size=5, elementwise=288, reads=[32], writes=[32]),
    row("softmax", "2x8", "2x8", elementwise=80, reads=[16], writes=[16]),
    # 3x4 pairs of 5 coordinates: a difference, a square, a sum each.
    row("distance", "3x5, 4x5", "3x4", elementwise=180, reads=[15, 20], writes=[12]),
    row("cosine_similarity", "2x8, 2x8", "2", elementwise=96, reads=[16, 16], writes=[2]),
    row("difference_loss", "2x8, 2x8", "()", elementwise=48, reads=[16, 16], writes=[1]),
    row("likelihood_loss", "4x10, 4", "()", elementwise=4, reads=[40, 4], writes=[1]),
    row("cross_entropy", "4x10, 4", "()", elementwise=204, reads=[40, 4], writes=[1]),
]  # fmt: skip

SAMPLING = [
    # Four weighted taps are four products and three sums; the nearest neighbor is a copy.
    row("resize", "1x2x4x4", "1x2x8x8", taps=4, elementwise=896, reads=[32], writes=[128]),
    row("resize", "1x2x4x4", "1x2x8x8", taps=1, reads=[32], writes=[128]),
    row("grid_sample", "1x2x4x4, 1x3x3x2", "1x2x3x3", taps=4, elementwise=126, reads=[32, 18], writes=[18]),
    # Two by two samples of four taps each are 16 taps.
    row("roi_align", "1x2x8x8, 3x4", "3x2x2x2", taps=16, elementwise=744, reads=[128, 12], writes=[24]),
    # Each coordinate of 3x4 points: a row of three products and two sums.
    row("affine_grid", "1x2x3", "1x3x4x2", elementwise=120, reads=[6], writes=[24]),
    row("affine_grid", "1x3x4", "1x2x3x4x3", elementwise=504, reads=[12], writes=[72]),
]

LAYOUTS = [
    *[row(kind, "2x6", "3x4", reads=[], writes=[]) for kind in ("view", "reshape", "identity", "sequence")],
    *[row(kind, "2x6", "6x2", reads=[12], writes=[12]) for kind in ("transpose", "rearrange", "copy")],
    row("concat", "2x3, 2x5", "2x8", reads=[6, 10], writes=[16]),
    row("split", "2x6", "2x3, 2x3", reads=[12], writes=[6, 6]),
    # Of 100 rows two are taken; where they start (2 numbers) is read as well.
    row("slice", "100x3, 2", "2x3", reads=[6, 2], writes=[6]),
    row("pad", "2x3", "4x5", reads=[6], writes=[20]),
    row("repeat", "2x3", "2x12", reads=[6], writes=[24]),
    # Copied into what was there before, which is not read.
    row("copy", "2x3, 2x3", "2x3", reads=[6], writes=[6]),
    row("update_slice", "8x3, 2x3", "8x3", reads=[24, 6], writes=[24]),
    row("create", "4x5", "4x5", reads=[], writes=[20]),
    row("draw", "4x5", "4x2", reads=[20], writes=[8]),
    row("one_hot", "4", "4x10", reads=[4], writes=[40]),
    row("unpool", "1x2x2x2, 1x2x2x2", "1x2x4x4", reads=[8, 8], writes=[32]),
    row("shape_of", "2x3x4", "3", reads=[], writes=[3]),
    row("split_to_sequence", "6x2", "3x2", reads=[12], writes=[12]),
    row("concat_from_sequence", "3x2", "6x2", reads=[12], writes=[12]),
    row("variable", "", "()", reads=[], writes=[]),
    row("read_variable", "()", "4x5", reads=[20], writes=[20]),
    # No output, but 20 numbers go into the variable.
    row("assign_variable", "(), 4x5", "", reads=[20], writes=[20]),
]

LOOKUPS = [
    # Seven of 1000 rows of 16 numbers.
    row("embedding", "1000x16, 7", "7x16", reads=[112, 7], writes=[112]),
    row("embedding_lookup", "7, 1000x16", "7x16", reads=[7, 112], writes=[112]),
    row("gather", "1000x16, 2x3", "2x3x16", reads=[96, 6], writes=[96]),
    # Rows of 16 packed into 8 bytes, with one scale and one zero point for every 8 numbers.
    row(
        "gather_dequantize", "1000x8, 7, 1000x2, 1000x2", "7x16",
        elementwise=224, reads=[56, 7, 14, 14], writes=[112],
    ),
    row(
        "gather_dequantize", "1000x8, 7, 1000x2, -", "7x16",
        elementwise=224, reads=[56, 7, 14], writes=[112],
    ),
    row("pick", "4x5", "6x2", elementwise=20, reads=[20], writes=[12]),
    row("scatter", "8x3, 2x1, 2x3", "8x3", reads=[24, 2, 6], writes=[24]),
    row("scatter_add", "8x3, 2x3, 2x3", "8x3", elementwise=6, reads=[24, 6, 6], writes=[24]),
    row("scatter_new", "2x1, 2x3, 2", "8x3", reads=[2, 6, 2], writes=[24]),
    # Five rows of 16 summed into two bags.
    row("embedding_bag", "1000x16, 5, 2", "2x16", elementwise=80, reads=[80, 5, 2], writes=[32]),
    row("select_boxes", "10x4, 10", "10", elementwise=10, reads=[40, 10], writes=[10]),
    # Two weights of 8x9 and 4x5 numbers, from codes of four bits and their tables.
    row(
        "decode", "8x9, 32, 4x5, 24", "8x9, 4x5",
        elementwise=92, reads=[36, 32, 10, 24], writes=[72, 20], codes=(36, 10),
    ),
]  # fmt: skip

ROWS = [*CONVOLUTIONS, *PRODUCTS, *RECURRENT, *PLAIN, *REDUCTIONS, *SAMPLING, *LAYOUTS, *LOOKUPS]
