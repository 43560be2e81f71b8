"""Operators that sum up many numbers into few: reductions, pooling, norms, softmax, scans, sorting."""

from __future__ import annotations

from sizeup.graph import Dim
from sizeup.ops.formulas import per_input, per_output
from sizeup.ops.rule import Call, Formula, OpRule, names, register


def reduction(
    kind: str,
    torch: str = "-",
    onnx: str = "-",
    tflite: str = "-",
    *,
    formula: Formula | None = None,
    summary: str = "One operation for each input number.",
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


reduction("sum", "aten.sum aten.nansum", "ReduceSum", "SUM")
reduction("mean", "aten.mean aten.nanmean", "ReduceMean", "MEAN")
reduction("max", "aten.max aten.amax aten.aminmax", "ReduceMax", "REDUCE_MAX")
reduction("min", "aten.min aten.amin", "ReduceMin", "REDUCE_MIN")
reduction("prod", "aten.prod", "ReduceProd", "REDUCE_PROD")
reduction("any", "aten.any aten.all aten.equal", "-", "REDUCE_ANY REDUCE_ALL")
reduction("argmax", "aten.argmax aten.argmin", "ArgMax ArgMin", "ARG_MAX ARG_MIN")
reduction("count_nonzero", "aten.count_nonzero aten.bincount aten.histc")
reduction(
    "variance",
    "aten.var aten.std aten.var_mean aten.std_mean",
    formula=per_input(3),
    summary="Three operations for each input number: one for the mean, two for the squared deviation.",
)
reduction(
    "norm_reduction",
    "aten.norm aten.linalg_vector_norm",
    "ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum",
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
    "TOPK_V2",
    summary="One visit of each input number; comparisons depend on the algorithm and are not counted.",
)

reduction(
    "pool",
    "aten.max_pool1d aten.max_pool2d aten.max_pool3d aten.max_pool1d_with_indices"
    " aten.max_pool2d_with_indices aten.max_pool3d_with_indices aten.avg_pool1d aten.avg_pool2d"
    " aten.avg_pool3d",
    "AveragePool MaxPool LpPool MaxRoiPool com.microsoft::QLinearAveragePool",
    "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D",
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
    window: Dim = call.attrs.get("size", 1)
    return (window + 3) * call.output.elements


_BATCH_NORM = "Two operations for each output number: the folded scale and shift."
reduction(
    "batch_norm",
    "aten.batch_norm aten.native_batch_norm aten._native_batch_norm_legit"
    " aten._native_batch_norm_legit_no_training aten.cudnn_batch_norm aten._batch_norm_no_update",
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
    "aten.layer_norm aten.native_layer_norm aten.group_norm aten.native_group_norm aten.instance_norm"
    " aten.cudnn_layer_norm",
    "LayerNormalization GroupNormalization InstanceNormalization com.microsoft::GroupNorm",
    formula=_normalisation,
    summary=(
        "For each number: one for the mean, two for the variance, two to normalise, and one each for scale"
        " and shift."
    ),
)
reduction(
    "skip_layer_norm",
    "-",
    "com.microsoft::SkipLayerNormalization com.microsoft::EmbedLayerNormalization",
    formula=per_output(8),
    summary="An addition, then a layer normalisation with scale and shift.",
)
reduction(
    "skip_rms_norm",
    "-",
    "com.microsoft::SkipSimplifiedLayerNormalization",
    formula=per_output(4),
    summary="An addition, then an RMS normalisation with scale.",
)
reduction(
    "rms_norm",
    "aten.rms_norm aten._fused_rms_norm",
    "RMSNormalization SimplifiedLayerNormalization",
    formula=per_output(3),
    summary="For each number: one for the mean square, one to normalise, one for the scale.",
)
reduction(
    "l2_norm",
    "-",
    "LpNormalization MeanVarianceNormalization",
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
    summary="For each number: the window's squares, a scale, a power, a quotient.",
)
reduction(
    "softmax",
    "aten.softmax aten._softmax aten.log_softmax aten._log_softmax aten._safe_softmax",
    "Softmax LogSoftmax Hardmax com.microsoft::QLinearSoftmax",
    "SOFTMAX LOG_SOFTMAX",
    formula=per_output(5),
    summary="For each number: maximum, difference, exponential, sum, quotient.",
)
# The distance of two vectors is a difference, a square and a sum for each coordinate.
reduction(
    "distance",
    "aten._cdist_forward aten.cdist aten._euclidean_dist aten.pairwise_distance",
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
    "loss",
    "aten.cross_entropy_loss aten.nll_loss aten.nll_loss_nd aten.mse_loss aten.l1_loss aten.nll_loss_forward",
    "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
)
