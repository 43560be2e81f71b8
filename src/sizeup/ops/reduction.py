"""Operators that sum up many numbers into few: reductions, pooling, norms, softmax, scans, sorting."""

from __future__ import annotations

from sizeup.graph import Dim
from sizeup.ops.formulas import per_input, per_output
from sizeup.ops.rule import Call, Formula, OpRule, Traffic, names, register


def reduction(
    kind: str,
    torch: str = "-",
    onnx: str = "-",
    tflite: str = "-",
    *,
    formula: Formula | None = None,
    summary: str = "One operation for each input number.",
    reads: Traffic | None = None,
    weight: int | None = None,
    buffers: tuple[int, ...] = (),
) -> None:
    """Register an operator whose work is proportional to what it reads."""
    register(
        OpRule(
            kind,
            "reduction",
            summary,
            elementwise=formula or per_input(),
            reads=reads,
            torch=names(torch),
            onnx=names(onnx),
            tflite=names(tflite),
            weight=weight,
            buffers=buffers,
        )
    )


def _pooling(call: Call) -> Dim:
    taps: Dim | None = call.attrs.get("taps")
    # Without a window (global and adaptive pooling) every input number is visited once.
    return call.input(0).elements if taps is None else taps * call.output.elements


reduction("sum", "aten.sum aten.nansum", "ReduceSum ReduceLogSum", "SUM")
reduction("mean", "aten.mean aten.nanmean", "ReduceMean com.microsoft::QLinearReduceMean", "MEAN")
reduction("max", "aten.max aten.amax", "ReduceMax", "REDUCE_MAX")
reduction("min", "aten.min aten.amin", "ReduceMin", "REDUCE_MIN")
reduction("prod", "aten.prod", "ReduceProd", "REDUCE_PROD")
reduction(
    "reduce",
    "-",
    "-",
    "STABLEHLO_REDUCE",
    formula=lambda call: call.number("operations") * call.input(0).elements,
    summary="The operations of its region for each number of the first input.",
)
reduction("any", "aten.any aten.all aten.equal", "-", "REDUCE_ANY REDUCE_ALL")
reduction("argmax", "aten.argmax aten.argmin", "ArgMax ArgMin Hardmax", "ARG_MAX ARG_MIN")
reduction(
    "min_max",
    "aten.aminmax",
    formula=per_input(2),
    summary="Two operations for each input number.",
)
reduction("count_nonzero", "aten.count_nonzero aten.bincount aten.histc")
reduction(
    "variance",
    "aten.var aten.std aten.var_mean aten.std_mean",
    formula=per_input(3),
    summary="Three operations for each input number: its sum, its square, the sum of squares.",
)
reduction(
    "norm_reduction",
    "aten.norm aten.linalg_vector_norm",
    "ReduceL1 ReduceL2 ReduceSumSquare",
    formula=per_input(2),
    summary="Two operations for each input number.",
)
reduction(
    "logsumexp",
    "aten.logsumexp",
    "ReduceLogSumExp",
    formula=per_input(4),
    summary="Four operations for each input number: maximum, difference, exponential, sum.",
)
reduction(
    "cumulate",
    "aten.cumsum aten.cumprod aten.cummax aten.cummin aten.logcumsumexp",
    "CumSum CumProd",
    "CUMSUM",
)
reduction(
    "segment",
    "-",
    "-",
    "SEGMENT_SUM UNSORTED_SEGMENT_SUM UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD",
)
# Comparisons of a sort depend on the algorithm; one visit of each number is what is certain.
reduction(
    "sort",
    "aten.sort aten.argsort aten.topk aten.kthvalue aten.median aten.mode aten.msort",
    "TopK",
    "TOPK_V2 STABLEHLO_SORT",
    summary="One visit of each input number; comparisons depend on the algorithm and are not counted.",
)

reduction(
    "pool",
    "aten.max_pool1d aten.max_pool2d aten.max_pool3d aten.max_pool1d_with_indices"
    " aten.max_pool2d_with_indices aten.max_pool3d_with_indices aten.avg_pool1d aten.avg_pool2d"
    " aten.avg_pool3d",
    "AveragePool MaxPool LpPool com.microsoft::QLinearAveragePool",
    "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D REDUCE_WINDOW STABLEHLO_REDUCE_WINDOW",
    formula=_pooling,
    summary="One operation for each tap of each output number; padding counted.",
)
reduction(
    "global_pool",
    "aten.adaptive_avg_pool1d aten.adaptive_avg_pool2d aten.adaptive_avg_pool3d aten._adaptive_avg_pool2d"
    " aten._adaptive_avg_pool3d aten.adaptive_max_pool1d aten.adaptive_max_pool2d aten.adaptive_max_pool3d",
    "GlobalAveragePool GlobalMaxPool GlobalLpPool com.microsoft::QLinearGlobalAveragePool",
)


def _local_response(call: Call) -> Dim:
    return (call.number("size") + 4) * call.output.elements


_BATCH_NORM = "Two operations for each output number: the folded scale and shift."
reduction(
    "batch_norm",
    "aten.batch_norm aten.native_batch_norm aten._native_batch_norm_legit"
    " aten._native_batch_norm_legit_no_training aten._native_batch_norm_legit_functional"
    " aten.cudnn_batch_norm aten._batch_norm_no_update aten._batch_norm_with_update"
    " aten._batch_norm_impl_index",
    "BatchNormalization",
    formula=per_output(2),
    summary=_BATCH_NORM,
    buffers=(3, 4),
)


def _normalisation(call: Call) -> Dim:
    affine = call.given(1) + call.given(2)
    return (5 + affine) * call.output.elements


reduction(
    "layer_norm",
    "aten.layer_norm aten.native_layer_norm aten.group_norm aten.native_group_norm aten.instance_norm",
    "LayerNormalization GroupNormalization InstanceNormalization MeanVarianceNormalization"
    " com.microsoft::GroupNorm",
    formula=_normalisation,
    summary=(
        "For each number: one for the mean, two for the variance, two to normalise, and one each for scale"
        " and shift where given."
    ),
)
reduction(
    "skip_layer_norm",
    "-",
    "com.microsoft::SkipLayerNormalization",
    formula=lambda call: (6 + call.given(2) + call.given(3) + call.given(4)) * call.output.elements,
    summary="An addition (two with a bias), then a layer normalisation.",
)


def _embedded_norm_reads(call: Call) -> list[Dim]:
    """Of the three tables (inputs 2 to 4) one row for each token."""
    return [
        0 if value is None else call.output.elements if index in (2, 3, 4) else value.elements
        for index, value in enumerate(call.inputs)
    ]


reduction(
    "embed_layer_norm",
    "-",
    "com.microsoft::EmbedLayerNormalization",
    formula=lambda call: (8 + call.given(4)) * call.output.elements,
    reads=_embedded_norm_reads,
    summary="The sum of two or three embeddings, then a layer normalisation with scale and shift.",
    weight=2,
)
reduction(
    "skip_rms_norm",
    "-",
    "com.microsoft::SkipSimplifiedLayerNormalization",
    formula=lambda call: (4 + call.given(2) + call.given(3)) * call.output.elements,
    summary="An addition (two with a bias), then an RMS normalisation.",
)
reduction(
    "rms_norm",
    "aten.rms_norm aten._fused_rms_norm",
    "RMSNormalization SimplifiedLayerNormalization",
    formula=lambda call: (3 + call.given(1)) * call.output.elements,
    summary="For each number: two for the mean square, one to normalise, one for the scale where given.",
)
reduction(
    "weight_norm",
    "aten._weight_norm_interface aten._weight_norm",
    formula=per_output(3),
    summary="For each number of the weight: two for the norm, one to scale.",
)
reduction(
    "l2_norm",
    "-",
    "LpNormalization",
    "L2_NORMALIZATION",
    formula=per_output(3),
    summary="For each number: two for the norm, one to divide.",
)
reduction(
    "local_response_norm",
    "-",
    "LRN",
    "LOCAL_RESPONSE_NORMALIZATION",
    formula=_local_response,
    summary="For each number: a square, the window's sum, a scale, a shift, a power, a quotient.",
)
reduction(
    "softmax",
    "aten.softmax aten._softmax aten.log_softmax aten._log_softmax aten._safe_softmax",
    "Softmax LogSoftmax com.microsoft::QLinearSoftmax",
    "SOFTMAX LOG_SOFTMAX",
    formula=per_output(5),
    summary="For each number: maximum, difference, exponential, sum, quotient.",
)
# The distance of two vectors is a difference, a square and a sum for each coordinate.
reduction(
    "distance",
    "aten._cdist_forward aten.cdist aten._euclidean_dist aten.pairwise_distance aten._pdist_forward"
    " aten.pdist",
    formula=lambda call: 3 * call.output.elements * call.input(0).shape[-1],
    summary="Three operations for each coordinate of each pair.",
)
reduction(
    "cosine_similarity",
    "aten.cosine_similarity",
    formula=per_input(6),
    summary="Six operations for each input number: three products and three sums.",
)
reduction(
    "difference_loss",
    "aten.mse_loss aten.l1_loss aten.smooth_l1_loss aten.huber_loss",
    formula=per_input(3),
    summary="For each number: a difference, its square or size, a sum.",
)
reduction(
    "likelihood_loss",
    "aten.nll_loss aten.nll_loss_nd aten.nll_loss_forward aten.nll_loss2d aten.nll_loss2d_forward",
    "NegativeLogLikelihoodLoss",
    formula=lambda call: call.input(1).elements,
    summary="One addition for each target.",
)
reduction(
    "cross_entropy",
    "aten.cross_entropy_loss",
    "SoftmaxCrossEntropyLoss",
    formula=lambda call: 5 * call.input(0).elements + call.input(1).elements,
    summary="A softmax (five operations for each number), then one addition for each target.",
)
reduction(
    "fold",
    "aten.col2im",
    "Col2Im",
    summary="One addition for each input number: columns that overlap are summed.",
)
