"""Convolutions. Inputs: data, filter, bias, then those of the op kind (deform_conv: offsets, mask)."""

from __future__ import annotations

import math

from sizeup.graph import ABSENT, Dim, Graph, Op
from sizeup.ops.cost_rule import Call, names, op_rule
from sizeup.ops.formulas import bias_additions


@op_rule(
    "conv",
    family="conv",
    torch=names(
        "aten.convolution aten._convolution aten.conv1d aten.conv2d aten.conv3d aten.cudnn_convolution"
        " aten.mkldnn_convolution aten.thnn_conv2d aten._slow_conv2d_forward aten.slow_conv3d"
        " aten._conv_depthwise2d aten.conv_depthwise3d quantized.conv1d quantized.conv1d_relu"
        " quantized.conv1d_dynamic quantized.conv2d quantized.conv2d_relu quantized.conv2d_dynamic"
        " quantized.conv3d quantized.conv3d_relu quantized.conv3d_dynamic"
    ),
    onnx=names(
        "Conv ConvInteger QLinearConv com.microsoft::FusedConv com.microsoft::NhwcFusedConv"
        " com.microsoft::QLinearConv"
    ),
    tflite=names("CONV_2D DEPTHWISE_CONV_2D CONV_3D STABLEHLO_CONVOLUTION"),
    weight=1,
    elementwise=bias_additions(2),
    traits=(
        "activates",
        "integer",
        "weight_rows",
    ),
)
def conv(call: Call) -> Dim:
    """Output elements x filter taps x input channels per group."""
    return call.output.elements * (call.input(1).elements // call.number("out_channels"))


@op_rule(
    "conv_transpose",
    family="conv",
    torch=names(
        "aten.conv_transpose1d aten.conv_transpose2d aten.conv_transpose3d quantized.conv_transpose1d"
        " quantized.conv_transpose1d_dynamic quantized.conv_transpose2d quantized.conv_transpose2d_dynamic"
        " quantized.conv_transpose3d quantized.conv_transpose3d_dynamic"
    ),
    onnx=names("ConvTranspose"),
    tflite=names("TRANSPOSE_CONV CONV_3D_TRANSPOSE Convolution2DTransposeBias"),
    weight=1,
    elementwise=bias_additions(2),
    traits=(
        "activates",
        "integer",
    ),
    latency="conv_transpose",
)
def conv_transpose(call: Call) -> Dim:
    """Input elements x filter taps x output channels per group."""
    return call.input(0).elements * (call.input(1).elements // call.number("in_channels"))


def _sampling(call: Call) -> Dim:
    """A bilinear sample (four products, three sums) per tap and input channel, shared by all filters of a
    group; one more product per sample if there is a mask."""
    out_channels = call.number("out_channels")
    groups: Dim = call.attrs.get("groups", 1)
    positions = call.output.elements // out_channels
    samples = positions * (call.input(1).elements // out_channels) * groups
    return (8 if call.has_input(4) else 7) * samples + bias_additions(2)(call)


@op_rule(
    "deform_conv",
    family="conv",
    torch=names("torchvision.deform_conv2d"),
    onnx=names("DeformConv"),
    weight=1,
    elementwise=_sampling,
    traits=("weight_rows",),
    latency="deform_conv",
)
def deform_conv(call: Call) -> Dim:
    """Same as a convolution; the bilinear sampling of its taps counts as elementwise operations."""
    return call.output.elements * (call.input(1).elements // call.number("out_channels"))


def is_depthwise(graph: Graph, op: Op) -> bool:
    """Whether the op is a depthwise convolution, with one or more filters per channel."""
    if op.kind != "conv" or len(op.inputs) < 2 or op.inputs[1] == ABSENT:
        return False
    if op.source == "DEPTHWISE_CONV_2D":
        return True
    taps = math.prod(op.attrs.get("kernel", ()) or (1,))
    filters = graph.tensors[op.inputs[1]].elements
    return bool(op.attrs.get("groups", 1) > 1 and filters == op.attrs.get("out_channels", 0) * taps)
