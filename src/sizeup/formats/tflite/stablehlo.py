"""Lowering of StableHLO operators, whose options name the role of each axis."""

from __future__ import annotations

import math

from sizeup.formats.tflite.node import LOWERINGS, Node
from sizeup.formats.tflite.schema import numbers
from sizeup.ops import cost_rule_of

_RELATIONS = {2: "GREATER_EQUAL", 3: "GREATER", 4: "LESS_EQUAL", 5: "LESS"}


@LOWERINGS("STABLEHLO_DOT_GENERAL")
def _dot_general(node: Node) -> None:
    options = node.required_options("StablehloDotGeneralOptions")
    contracted = numbers(options.LhsContractingDimensionsAsNumpy())
    left = _Operand(node, 0, contracted, numbers(options.LhsBatchingDimensionsAsNumpy()))
    right_contracted = numbers(options.RhsContractingDimensionsAsNumpy())
    right = _Operand(node, 1, right_contracted, numbers(options.RhsBatchingDimensionsAsNumpy()))
    if left.shape is not None and right.shape is not None:
        if (left.contracted, left.batch) != (right.contracted, right.batch):
            node.fail(f"contracted or batch axes of {left.shape} and {right.shape} differ in size")
        output = node.tensors[node.outputs[0]].shape
        if output is not None and math.prod(output) != math.prod((*left.batch, *left.free, *right.free)):
            node.fail(f"the product of {left.shape} and {right.shape} is not {output}")
    node.attrs["contracted"] = tuple(contracted)


class _Operand:
    """The axis sizes of an operand: contracted, batch and free."""

    def __init__(self, node: Node, position: int, contracted: list[int], batch: list[int]) -> None:
        self.shape = shape = node.shape(position)
        if shape is None:
            return
        named = [*contracted, *batch]
        if len(set(named)) < len(named) or not set(named) <= set(range(len(shape))):
            node.fail(f"axes {named} are invalid for an operand of shape {shape}")
        self.contracted, self.batch = [shape[axis] for axis in contracted], [shape[axis] for axis in batch]
        self.free = [size for axis, size in enumerate(shape) if axis not in named]


@LOWERINGS("STABLEHLO_CONVOLUTION")
def _convolution(node: Node) -> None:
    """A convolution; with input dilation it is a transposed convolution."""
    options = node.required_options("StablehloConvolutionOptions")
    data, filters = node.shape(0), node.shape(1)
    if data is None or filters is None:
        node.attrs.update(out_channels=1, in_channels=1)
        return
    channels, features = options.InputFeatureDimension(), options.KernelOutputFeatureDimension()
    if not (0 <= channels < len(data) and 0 <= features < len(filters)) or 0 in data or 0 in filters:
        node.fail(f"channel axes {channels} and {features} are invalid for shapes {data} and {filters}")
    inner = options.KernelInputFeatureDimension()
    spatial = numbers(options.KernelSpatialDimensionsAsNumpy())
    if sorted((inner, features, *spatial)) != list(range(len(filters))):
        node.fail(f"axes {inner}, {features} and {spatial} are invalid for weights of shape {filters}")
    (groups,) = node.sizes("groups", [options.FeatureGroupCount()])
    if filters[inner] * groups != data[channels]:
        node.fail(f"{data[channels]} channels in {groups} groups do not match weights of shape {filters}")
    if any(size > 1 for size in numbers(options.LhsDilationAsNumpy())):
        node.kind = "conv_transpose"
    node.attrs.update(
        out_channels=filters[features],
        in_channels=data[channels],
        groups=groups,
        kernel=tuple(filters[axis] for axis in spatial),
        stride=node.sizes("strides", numbers(options.WindowStridesAsNumpy())),
        dilation=node.sizes("dilations", numbers(options.RhsDilationAsNumpy())),
    )


def _operations(node: Node, region: int) -> int | None:
    """Number of scalar operations in a region, or None if an op has no cost rule or has nested regions."""
    ops = node.graph(region).ops
    rules = [cost_rule_of(op.kind) for op in ops]
    if any(op.bodies for op in ops) or None in rules:
        return None
    return sum(rule is not None and rule.family == "elementwise" for rule in rules)


@LOWERINGS("STABLEHLO_REDUCE")
def _reduce(node: Node) -> None:
    """The region combines the accumulator with the next value."""
    options = node.required_options("StablehloReduceOptions")
    operations = _operations(node, options.BodySubgraphIndex())
    if operations is None:
        node.kind = node.source
        return
    node.attrs["operations"] = operations


@LOWERINGS("STABLEHLO_REDUCE_WINDOW")
def _reduce_window(node: Node) -> None:
    options = node.required_options("StablehloReduceWindowOptions")
    operations = _operations(node, options.BodySubgraphIndex())
    if operations is None:
        node.kind = node.source
        return
    window = node.window(numbers(options.WindowDimensionsAsNumpy()))
    node.attrs["taps"] = operations * math.prod(window)


@LOWERINGS("STABLEHLO_COMPARE")
def _compare(node: Node) -> None:
    options = node.options("StablehloCompareOptions")
    direction = 0 if options is None else options.ComparisonDirection()
    node.attrs["relation"] = _RELATIONS.get(direction, "EQUAL")
