"""Reductions, pooling, norms, softmax, scans, sorting and losses."""

from __future__ import annotations

from sizeup.graph import Dim
from sizeup.ops.cost_rule import Call, Formula, OpRule, Traffic, names, register
from sizeup.ops.formulas import per_input, per_output


def reduction(
    op_kind: str,
    torch: str = "-",
    onnx: str = "-",
    tflite: str = "-",
    *,
    formula: Formula | None = None,
    summary: str = "1 operation per input element.",
    reads: Traffic | None = None,
    weight: int | None = None,
    buffers: tuple[int, ...] = (),
    traits: str = "",
    latency: str = "",
    alike: str = "",
) -> None:
    """Register an op kind whose work is proportional to its input size."""
    register(
        OpRule(
            op_kind,
            "reduction",
            summary,
            elementwise=formula or per_input(),
            reads=reads,
            torch=names(torch),
            onnx=names(onnx),
            tflite=names(tflite),
            weight=weight,
            buffers=buffers,
            traits=names(traits),
            latency=latency,
            alike=alike,
        )
    )


def _pooling(call: Call) -> Dim:
    taps: Dim | None = call.attrs.get("taps")
    # Without a window (global and adaptive pooling) every input element is read once.
    return call.input(0).elements if taps is None else taps * call.output.elements


reduction("sum", "aten.sum aten.nansum", "ReduceSum ReduceLogSum", "SUM", traits="reduces reduces_axes")
reduction(
    "mean",
    "aten.mean aten.nanmean",
    "ReduceMean com.microsoft::QLinearReduceMean",
    "MEAN",
    traits="reduces reduces_axes",
    alike="pool",
)
reduction("max", "aten.max aten.amax", "ReduceMax", "REDUCE_MAX", traits="reduces reduces_axes")
reduction("min", "aten.min aten.amin", "ReduceMin", "REDUCE_MIN", traits="reduces reduces_axes")
reduction("prod", "aten.prod", "ReduceProd", "REDUCE_PROD", traits="reduces reduces_axes")
reduction(
    "reduce",
    "-",
    "-",
    "STABLEHLO_REDUCE",
    formula=lambda call: call.number("operations") * call.input(0).elements,
    summary="The operations of its region per element of the first input.",
)
reduction(
    "any",
    "aten.any aten.all aten.equal aten._is_all_true aten._is_any_true",
    "-",
    "REDUCE_ANY REDUCE_ALL",
    traits="reduces_axes",
)
reduction("argmax", "aten.argmax aten.argmin", "ArgMax ArgMin Hardmax", "ARG_MAX ARG_MIN")
reduction(
    "min_max",
    "aten.aminmax quantized_decomposed.choose_qparams quantized_decomposed.choose_qparams_symmetric"
    " quantized_decomposed.choose_qparams_per_token quantized_decomposed.choose_qparams_per_token_asymmetric"
    " quantized_decomposed._choose_qparams_per_token_asymmetric_impl torchao.choose_qparams_affine",
    formula=per_input(2),
    summary="2 operations per input element.",
)
reduction("count_nonzero", "aten.count_nonzero aten.bincount aten.histc")
reduction(
    "variance",
    "aten.var aten.std aten.var_mean aten.std_mean",
    formula=per_input(3),
    summary="3 operations per input element: sum, square, sum of squares.",
    traits="reduces reduces_axes",
)
reduction(
    "norm_reduction",
    "aten.norm aten.linalg_vector_norm",
    "ReduceL1 ReduceL2 ReduceSumSquare",
    formula=per_input(2),
    summary="2 operations per input element.",
    traits="reduces reduces_axes",
)
reduction(
    "logsumexp",
    "aten.logsumexp",
    "ReduceLogSumExp",
    formula=per_input(4),
    summary="4 operations per input element: maximum, difference, exponential, sum.",
    traits="reduces_axes",
)
reduction(
    "cumulate",
    "aten.cumsum aten.cumprod aten.cummax aten.cummin aten.logcumsumexp",
    "CumSum CumProd",
    "CUMSUM",
    traits="keeps_shape",
)
reduction(
    "segment",
    "-",
    "-",
    "SEGMENT_SUM UNSORTED_SEGMENT_SUM UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD",
)
# The comparisons of a sort depend on the algorithm; one operation per element is a lower bound.
reduction(
    "sort",
    "aten.sort aten.argsort aten.topk aten.kthvalue aten.median aten.mode aten.msort",
    "TopK",
    "TOPK_V2 STABLEHLO_SORT",
    summary="1 operation per input element; comparisons depend on the algorithm and are not counted.",
)

reduction(
    "pool",
    "aten.max_pool1d aten.max_pool2d aten.max_pool3d aten.max_pool1d_with_indices"
    " aten.max_pool2d_with_indices aten.max_pool3d_with_indices aten.avg_pool1d aten.avg_pool2d"
    " aten.avg_pool3d quantized.max_pool1d quantized.max_pool2d",
    "AveragePool MaxPool LpPool com.microsoft::QLinearAveragePool",
    "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D REDUCE_WINDOW STABLEHLO_REDUCE_WINDOW",
    formula=_pooling,
    summary="1 operation per window tap and output element, padding included.",
    traits="activates integer",
    latency="pool",
)
reduction(
    "global_pool",
    "aten.adaptive_avg_pool1d aten.adaptive_avg_pool2d aten.adaptive_avg_pool3d aten._adaptive_avg_pool2d"
    " aten._adaptive_avg_pool3d aten.adaptive_max_pool1d aten.adaptive_max_pool2d aten.adaptive_max_pool3d",
    "GlobalAveragePool GlobalMaxPool GlobalLpPool com.microsoft::QLinearGlobalAveragePool",
    traits="integer reduces",
    alike="pool",
)


def _local_response(call: Call) -> Dim:
    return (call.number("size") + 4) * call.output.elements


reduction(
    "batch_norm",
    "aten.batch_norm aten.native_batch_norm aten._native_batch_norm_legit"
    " aten._native_batch_norm_legit_no_training aten._native_batch_norm_legit_functional"
    " aten.cudnn_batch_norm aten._batch_norm_no_update aten._batch_norm_with_update"
    " aten._batch_norm_impl_index quantized.batch_norm quantized.batch_norm_relu quantized.batch_norm1d"
    " quantized.batch_norm1d_relu quantized.batch_norm2d quantized.batch_norm2d_relu quantized.batch_norm3d"
    " quantized.batch_norm3d_relu",
    "BatchNormalization",
    formula=per_output(2),
    summary="2 operations per output element: the folded scale and shift.",
    buffers=(3, 4),
    traits="pointwise trained keeps_shape",
    latency="batch_norm",
)


def _normalization(call: Call) -> Dim:
    affine = call.has_input(1) + call.has_input(2)
    return (5 + affine) * call.output.elements


reduction(
    "batch_norm_training",
    "-",
    formula=_normalization,
    summary=(
        "With the statistics of the batch, per element: 1 for the mean, 2 for the variance, 2 to normalize,"
        " 1 each for a scale and a shift if present."
    ),
    buffers=(3, 4),
    latency="layer_norm",
    traits="keeps_shape",
)
reduction(
    "layer_norm",
    "aten.layer_norm aten.native_layer_norm aten.group_norm aten.native_group_norm aten.instance_norm"
    " quantized.layer_norm quantized.group_norm quantized.instance_norm",
    "LayerNormalization GroupNormalization InstanceNormalization MeanVarianceNormalization"
    " com.microsoft::GroupNorm",
    formula=_normalization,
    summary=(
        "Per element: 1 for the mean, 2 for the variance, 2 to normalize, 1 each for a scale and a shift"
        " if present."
    ),
    traits="reduces trained keeps_shape",
    latency="layer_norm",
)
reduction(
    "skip_layer_norm",
    "-",
    "com.microsoft::SkipLayerNormalization",
    formula=lambda call: (
        (6 + call.has_input(2) + call.has_input(3) + call.has_input(4)) * call.output.elements
    ),
    summary="An addition (two with a bias), then a layer normalization.",
    traits="trained keeps_shape",
    latency="layer_norm",
)


def _embedded_norm_reads(call: Call) -> list[Dim]:
    """One row per token of the three tables (inputs 2 to 4)."""
    return [
        0 if value is None else call.output.elements if index in (2, 3, 4) else value.elements
        for index, value in enumerate(call.inputs)
    ]


reduction(
    "embed_layer_norm",
    "-",
    "com.microsoft::EmbedLayerNormalization",
    formula=lambda call: (8 + call.has_input(4)) * call.output.elements,
    reads=_embedded_norm_reads,
    summary="The sum of two or three embeddings, then a layer normalization with scale and shift.",
    weight=2,
    traits="trained",
    latency="layer_norm",
)
reduction(
    "skip_rms_norm",
    "-",
    "com.microsoft::SkipSimplifiedLayerNormalization",
    formula=lambda call: (4 + call.has_input(2) + call.has_input(3)) * call.output.elements,
    summary="An addition (two with a bias), then an RMS normalization.",
    traits="trained keeps_shape",
    latency="layer_norm",
)
reduction(
    "rms_norm",
    "aten.rms_norm aten._fused_rms_norm",
    "RMSNormalization SimplifiedLayerNormalization",
    formula=lambda call: (3 + call.has_input(1)) * call.output.elements,
    summary="Per element: 2 for the mean square, 1 to normalize, 1 for a scale if present.",
    traits="reduces trained keeps_shape",
    latency="layer_norm",
)
reduction(
    "weight_norm",
    "aten._weight_norm_interface aten._weight_norm",
    formula=per_output(3),
    summary="Per weight element: 2 for the norm, 1 to scale.",
)
reduction(
    "l2_norm",
    "-",
    "LpNormalization",
    "L2_NORMALIZATION",
    formula=per_output(3),
    summary="Per element: 2 for the norm, 1 to divide.",
    traits="keeps_shape",
)
reduction(
    "local_response_norm",
    "-",
    "LRN",
    "LOCAL_RESPONSE_NORMALIZATION",
    formula=_local_response,
    summary="Per element: square, sum over the window, scale, shift, power, division.",
    traits="keeps_shape",
)
reduction(
    "softmax",
    "aten.softmax aten._softmax aten.log_softmax aten._log_softmax aten._safe_softmax quantized.softmax",
    "Softmax LogSoftmax com.microsoft::QLinearSoftmax",
    "SOFTMAX LOG_SOFTMAX",
    formula=per_output(5),
    summary="Per element: maximum, difference, exponential, sum, division.",
    traits="reduces keeps_shape",
    latency="softmax",
)
# The distance of two vectors: a difference, a square and a sum per coordinate.
reduction(
    "distance",
    "aten._cdist_forward aten.cdist aten._euclidean_dist aten.pairwise_distance aten._pdist_forward"
    " aten.pdist",
    formula=lambda call: 3 * call.output.elements * call.input(0).shape[-1],
    summary="3 operations per coordinate of every pair.",
)
reduction(
    "cosine_similarity",
    "aten.cosine_similarity",
    formula=per_input(6),
    summary="6 operations per input element: 3 products and 3 sums.",
)
reduction(
    "difference_loss",
    "aten.mse_loss aten.l1_loss aten.smooth_l1_loss aten.huber_loss",
    formula=per_input(3),
    summary="Per element: difference, square or absolute value, sum.",
)
reduction(
    "likelihood_loss",
    "aten.nll_loss aten.nll_loss_nd aten.nll_loss_forward aten.nll_loss2d aten.nll_loss2d_forward",
    "NegativeLogLikelihoodLoss",
    formula=lambda call: call.input(1).elements,
    summary="1 addition per target.",
)
reduction(
    "cross_entropy",
    "aten.cross_entropy_loss",
    "SoftmaxCrossEntropyLoss",
    formula=lambda call: 5 * call.input(0).elements + call.input(1).elements,
    summary="A softmax (5 operations per element), then 1 addition per target.",
)
reduction(
    "fold",
    "aten.col2im",
    "Col2Im",
    summary="1 addition per input element: overlapping columns are summed.",
)
