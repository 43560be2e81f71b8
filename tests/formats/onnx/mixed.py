"""Large generated ONNX files: convolutions between operators that compute shapes and branches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from formats.onnx.making import BOOL, graph, model, node, numbers, value, weight

MACS_EACH = 8 * 8 * 4 * 4 * 9  # a 3x3 convolution of 4 to 4 channels on 8x8 pixels


def mixed(count: int) -> onnx.ModelProto:
    """So many nodes, those of branches included: Conv, Shape, Reshape, Constant, If, Relu and Sigmoid."""
    nodes = [each for place in range(count // 7) for each in _unit(place)]
    inputs = [value("y0", (1, 4, 8, 8)), value("flag", (), BOOL)]
    return model(nodes, inputs, f"y{count // 7}", [weight("w", 4, 4, 3, 3), weight("b", 4)])


def _unit(place: int) -> Iterator[onnx.NodeProto]:
    name = f"/block.{place}"
    yield node("Conv", f"y{place} w b", f"c{place}", name=f"{name}/conv/Conv", pads=[1, 1, 1, 1])
    yield node("Shape", f"c{place}", f"s{place}", name=f"{name}/Shape")
    yield node("Constant", "", f"k{place}", value=numbers("", place % 4 == 0, np.bool_))
    yield node("Reshape", f"c{place} s{place}", f"r{place}", name=f"{name}/Reshape")
    branches = {
        f"{which}_branch": graph([node(op, f"r{place}", f"{which}{place}")], (), f"{which}{place}")
        for which, op in (("then", "Relu"), ("else", "Sigmoid"))
    }
    # Of every second one data decides which branch runs; both cost the same.
    yield node("If", "flag" if place % 2 else f"k{place}", f"y{place + 1}", name=f"{name}/If", **branches)


def computed_shapes(count: int) -> onnx.ModelProto:
    """So many nodes in one chain of Shape, Gather, Concat and Reshape, each shape made of the one before."""
    nodes = []
    for place in range(count // 4):
        nodes += [
            node("Shape", f"y{place}", f"s{place}"),
            node("Gather", f"s{place} first", f"g{place}", axis=0),
            node("Concat", f"g{place} rest last", f"n{place}", axis=0),
            node("Reshape", f"y{place} n{place}", f"y{place + 1}"),
        ]
    constants = [numbers("first", [0]), numbers("rest", [-1]), numbers("last", [8])]
    return model(nodes, [value("y0", (2, 4, 8))], f"y{count // 4}", constants)


def one_branch(count: int) -> onnx.ModelProto:
    """So many nodes, half of them in one branch that reads the outputs of the other half."""
    half = count // 2
    outside = [node("Sigmoid", "x", f"o{place}") for place in range(half)]
    inside = [node("Add", f"a{place} o{place}", f"a{place + 1}") for place in range(half)]
    long = graph([node("Relu", "x", "a0"), *inside], (), f"a{half}")
    short = graph([node("Neg", "x", "n")], (), "n")
    chosen = node("If", "flag", "y", then_branch=long, else_branch=short)
    return model([*outside, chosen], [value("x", (2, 4, 8)), value("flag", (), BOOL)])
