"""Ops without arithmetic: aliases, copies, and ops that create tensors."""

from __future__ import annotations

from sizeup.ops.cost_rule import OpRule, Traffic, names, register
from sizeup.ops.formulas import reads_nothing, reads_output_size, writes_nothing


def layout(
    op_kind: str,
    torch: str = "-",
    onnx: str = "-",
    tflite: str = "-",
    *,
    summary: str,
    reads: Traffic | None = None,
    writes: Traffic | None = None,
    updates: Traffic | None = None,
    views: bool = False,
    overwrites: bool = False,
    traits: str = "",
    latency: str = "",
    alike: str = "",
) -> None:
    """Register an op kind without arithmetic."""
    register(
        OpRule(
            op_kind,
            "layout",
            summary,
            reads=reads,
            writes=writes,
            updates=updates,
            torch=names(torch),
            onnx=names(onnx),
            tflite=names(tflite),
            views=views,
            overwrites=overwrites,
            traits=names(traits),
            latency=latency,
            alike=alike,
        )
    )


def view(op_kind: str, torch: str = "-", onnx: str = "-", tflite: str = "-", *, alike: str = "") -> None:
    """Register an op kind whose output aliases its first input, without memory traffic."""
    layout(
        op_kind, torch, onnx, tflite,
        summary="Alias of its input with another shape: no memory traffic.",
        reads=reads_nothing, writes=writes_nothing, views=True, alike=alike,
    )  # fmt: skip


# Operators of PyTorch whose alias has the axes in another order.
PERMUTING = names(
    "aten.permute aten.transpose aten.movedim aten.moveaxis aten.swapaxes aten.swapdims aten.t aten.numpy_T"
    " aten.mT aten.mH aten.adjoint"
)
_COPIES = "Reads as many elements as it writes; no arithmetic."

view(
    "view",
    "aten.view aten.view_as aten.squeeze aten.unsqueeze aten.unflatten aten.detach aten.alias"
    " aten.lift_fresh aten.slice aten.select aten.narrow aten.split aten.split_with_sizes aten.chunk"
    " aten.tensor_split aten.unbind aten.transpose aten.permute aten.t aten.numpy_T aten.movedim"
    " aten.swapaxes aten.expand aten.expand_as aten.broadcast_to aten.diagonal aten.unfold aten.as_strided"
    " aten.view_as_real aten.view_as_complex aten.real aten.imag aten._unsafe_view aten._reshape_alias"
    " aten.resolve_conj aten.resolve_neg aten._conj aten.unsafe_split aten.unsafe_chunk"
    " aten.unsafe_split_with_sizes aten.hsplit aten.vsplit aten.moveaxis aten.swapdims aten.adjoint aten.mT"
    " aten.mH aten.atleast_1d aten.atleast_2d aten.atleast_3d aten.dsplit",
    alike="reshape",
)
view(
    "reshape",
    "aten.reshape aten.reshape_as aten.contiguous aten.flatten aten.ravel",
    "Reshape Flatten Squeeze Unsqueeze",
    "RESHAPE SQUEEZE EXPAND_DIMS STABLEHLO_RESHAPE BITCAST",
)
view(
    "identity",
    "aten.dropout aten.positive aten.conj aten.requires_grad_",
    "Identity Dropout BitCast Optional OptionalGetElement",
)

layout("transpose", "-", "Transpose", "TRANSPOSE STABLEHLO_TRANSPOSE", summary=_COPIES, traits="moves")
layout(
    "concat",
    "aten.cat aten.concat aten.concatenate aten.stack aten.hstack aten.vstack aten.dstack aten.column_stack"
    " aten.block_diag quantized.cat quantized.cat_relu",
    "Concat com.microsoft::QLinearConcat",
    "CONCATENATION PACK STABLEHLO_CONCATENATE",
    summary=_COPIES,
    traits="integer pointwise",
    latency="concat",
)
layout("split", "-", "Split", "SPLIT SPLIT_V UNPACK", summary=_COPIES, traits="moves")
layout(
    "slice",
    "aten.slice_copy aten._pack_padded_sequence",
    "Slice",
    "SLICE STRIDED_SLICE STABLEHLO_SLICE STABLEHLO_DYNAMIC_SLICE",
    reads=reads_output_size(),
    summary=_COPIES,
    traits="moves",
)
layout(
    "pad",
    "aten.pad aten.constant_pad_nd aten.reflection_pad1d aten.reflection_pad2d aten.reflection_pad3d"
    " aten.replication_pad1d aten.replication_pad2d aten.replication_pad3d aten._pad_circular"
    " aten._pad_packed_sequence",
    "Pad CenterCropPad",
    "PAD PADV2 MIRROR_PAD STABLEHLO_PAD DILATE",
    summary="Reads its input, writes it with padding; no arithmetic.",
    traits="pointwise",
)
layout(
    "repeat",
    "aten.repeat aten.tile aten.repeat_interleave aten.expand_copy",
    "Tile Expand",
    "TILE BROADCAST_TO STABLEHLO_BROADCAST_IN_DIM",
    summary="Reads its input once and writes it several times; no arithmetic.",
    traits="pointwise moves",
)
layout(
    "rearrange",
    "aten.flip aten.fliplr aten.flipud aten.roll aten.rot90 aten.pixel_shuffle aten.pixel_unshuffle"
    " aten.channel_shuffle aten.native_channel_shuffle aten.im2col aten.meshgrid"
    " aten.cartesian_prod aten.combinations aten.diag_embed aten.diag aten.pad_sequence",
    "SpaceToDepth DepthToSpace ReverseSequence",
    "SPACE_TO_DEPTH DEPTH_TO_SPACE BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND REVERSE_V2 REVERSE_SEQUENCE"
    " MATRIX_DIAG",
    summary=_COPIES,
    traits="pointwise moves",
    alike="transpose",
)
layout(
    "copy",
    "aten.clone aten.copy aten._to_dense aten.lift_fresh_copy aten.lift",
    "-",
    "-",
    reads=lambda call: [
        0 if v is None or (i == 0 and len(call.inputs) > 1) else v.elements for i, v in enumerate(call.inputs)
    ],
    summary="Reads the source, writes the copy; no arithmetic.",
    traits="pointwise moves",
    alike="identity",
)
layout(
    "update_slice",
    "aten.slice_scatter aten.select_scatter aten.index_copy aten.as_strided_scatter aten.diagonal_scatter",
    "TensorScatter",
    "DYNAMIC_UPDATE_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE MATRIX_SET_DIAG",
    overwrites=True,
    summary="Reads its inputs, writes the full updated tensor; no arithmetic.",
    traits="keeps_shape",
)

layout(
    "create",
    "aten.zeros aten.ones aten.full aten.empty aten.empty_strided aten.zeros_like aten.ones_like"
    " aten.full_like aten.empty_like aten.empty_permuted aten.new_zeros aten.new_ones aten.new_full"
    " aten.new_empty aten.new_empty_strided aten.fill aten.zero aten.arange aten.linspace aten.logspace"
    " aten.eye aten.tril_indices aten.triu_indices aten.scalar_tensor aten.rand aten.randn aten.rand_like"
    " aten.randn_like aten.randint aten.randint_like aten.randperm aten.uniform aten.exponential"
    " aten.hann_window aten.hamming_window aten.blackman_window aten.bartlett_window aten.kaiser_window"
    " aten._efficientzerotensor aten.resize aten.normal_functional",
    "Constant ConstantOfShape Range EyeLike RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
    " BlackmanWindow HammingWindow HannWindow MelWeightMatrix",
    "FILL ZEROS_LIKE RANGE RANDOM_UNIFORM RANDOM_STANDARD_NORMAL STABLEHLO_IOTA STABLEHLO_RNG_BIT_GENERATOR",
    reads=reads_nothing,
    summary="Writes its output; reads no tensor. Random number generation is not counted.",
    traits="pointwise",
)
layout(
    "draw",
    "aten.bernoulli aten.normal aten.multinomial aten.poisson",
    "Bernoulli Multinomial",
    "MULTINOMIAL",
    summary="Reads a distribution, writes samples; random number generation is not counted.",
)
layout(
    "one_hot",
    "aten.one_hot",
    "OneHot",
    "ONE_HOT",
    summary="Reads the indices, writes their rows; no arithmetic.",
)
layout(
    "unpool",
    "aten.max_unpool2d aten.max_unpool3d",
    "MaxUnpool",
    summary="Reads values and their indices, writes the full tensor; no arithmetic.",
)
layout(
    "shape_of",
    "aten.sym_size aten.sym_numel aten.sym_stride aten.sym_storage_offset aten._local_scalar_dense aten.item"
    " aten.sym_constrain_range_for_size aten._assert_async aten._assert_scalar aten._assert_tensor_metadata"
    " aten.is_nonzero aten.is_same_size aten.sym_constrain_range aten._functional_assert_async"
    " aten._functional_assert_scalar aten._functional_sym_constrain_range aten.sym_is_contiguous"
    " aten._functional_sym_constrain_range_for_size aten._shape_as_tensor",
    "Shape Size OptionalHasElement SequenceLength",
    "SHAPE RANK BROADCAST_ARGS",
    reads=reads_nothing,
    summary="Returns a shape or a scalar; its inputs are not read.",
)
layout(
    "sequence",
    "-",
    "SequenceConstruct SequenceAt SequenceEmpty SequenceInsert SequenceErase",
    reads=reads_nothing,
    writes=writes_nothing,
    summary="Passes tensors on in a list: no memory traffic.",
)
layout(
    "split_to_sequence",
    "-",
    "SplitToSequence",
    writes=lambda call: [call.input(0).elements],
    summary=_COPIES,
)
layout(
    "concat_from_sequence",
    "-",
    "ConcatFromSequence",
    reads=reads_output_size(),
    summary=_COPIES,
)
layout(
    "variable",
    "-",
    "-",
    "VAR_HANDLE",
    reads=reads_nothing,
    writes=writes_nothing,
    summary="Handle of a variable, whose memory persists between inferences.",
)
layout("read_variable", "-", "-", "READ_VARIABLE", reads=reads_output_size(), summary=_COPIES)
layout(
    "assign_variable",
    "-",
    "-",
    "ASSIGN_VARIABLE",
    reads=lambda call: [0, call.input(1).elements],
    updates=lambda call: [call.input(1).elements, 0],
    summary="Reads a value and writes it to a variable; it has no output.",
)
