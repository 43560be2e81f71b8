"""StableHLO's operators: axes by number, regions, and what their options say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formats.tflite.factory import File, options, single
from sizeup.cost import count
from sizeup.errors import CorruptModel


def test_dot_general_sums_over_the_axes_that_it_names() -> None:
    # 4 x 6 outputs, each a sum over the left's 3 x 5
    settings = options(
        "StablehloDotGeneralOptions", lhsContractingDimensions=[0, 2], rhsContractingDimensions=[2, 0]
    )
    graph = single("STABLEHLO_DOT_GENERAL", [(3, 4, 5), (5, 6, 3)], [(4, 6)], settings)
    assert (graph.ops[0].kind, count(graph).total_macs) == ("matmul", 4 * 6 * 15)


def test_dot_general_over_an_axis_that_is_not_there_is_corrupt() -> None:
    settings = options("StablehloDotGeneralOptions", lhsContractingDimensions=[3])
    with pytest.raises(CorruptModel, match="axes"):
        single("STABLEHLO_DOT_GENERAL", [(3, 4), (4, 6)], [(3, 6)], settings)


def _convolution(**fields: Any) -> Any:
    """Channels first, filters (out, in, h, w)."""
    return options(
        "StablehloConvolutionOptions",
        inputBatchDimension=0, inputFeatureDimension=1, inputSpatialDimensions=[2, 3],
        kernelOutputFeatureDimension=0, kernelInputFeatureDimension=1, kernelSpatialDimensions=[2, 3],
        outputBatchDimension=0, outputFeatureDimension=1, outputSpatialDimensions=[2, 3],
        windowStrides=[1, 1], **fields,
    )  # fmt: skip


def test_convolution_finds_its_channels_by_number() -> None:
    # 6x6x8 outputs x 3x3x4, in two groups of 4 channels
    settings = _convolution(featureGroupCount=2)
    graph = single("STABLEHLO_CONVOLUTION", [(1, 8, 8, 8), (8, 4, 3, 3)], [(1, 8, 6, 6)], settings, (1,))
    assert (graph.ops[0].kind, count(graph).total_macs) == ("conv", 288 * 36)
    assert (graph.ops[0].attrs["groups"], graph.ops[0].attrs["kernel"]) == (2, (3, 3))


def test_convolution_of_a_spread_out_input_is_a_transposed_one() -> None:
    # 4x4x6 inputs, each spread over 3x3 taps of 5 filters
    settings = _convolution(lhsDilation=[2, 2], featureGroupCount=1)
    graph = single("STABLEHLO_CONVOLUTION", [(1, 6, 4, 4), (5, 6, 3, 3)], [(1, 5, 9, 9)], settings, (1,))
    assert (graph.ops[0].kind, count(graph).total_macs) == ("conv_transpose", 96 * 45)


def _with_region(name: str, settings: Any, out: tuple[int, ...], operators: list[str]) -> File:
    """An operator on 4x6 numbers whose region takes two scalars and applies those operators in turn."""
    file = File()
    data, start = file.main.tensor("x", (4, 6)), file.main.tensor("start", (), data=np.zeros(1, np.float32))
    result = file.main.tensor("y", out)
    file.main.op(name, [data, start], [result], settings)
    file.main.ends([data], [result])
    region = file.subgraph("region")
    left, right = region.tensor("a", ()), region.tensor("b", ())
    inputs, last = [left, right], left
    for place, operator in enumerate(operators):
        following = region.tensor(f"r{place}", ())
        region.op(operator, [last, right], [following])
        last = following
    region.ends(inputs, [last])
    return file


@pytest.mark.parametrize(("operators", "operations"), [(["STABLEHLO_ADD"], 24), (["STABLEHLO_ADD"] * 3, 72)])
def test_reduce_runs_its_region_for_each_number(operators: list[str], operations: int) -> None:
    settings = options("StablehloReduceOptions", dimensions=[1], bodySubgraphIndex=1)
    graph = _with_region("STABLEHLO_REDUCE", settings, (4,), operators).load()
    cost = count(graph)
    assert (cost.total_elementwise, cost.known.tolist()) == (operations, [True])


def test_reduce_window_runs_its_region_for_each_tap() -> None:
    # windows of 1x3 for 4x4 outputs
    settings = options("StablehloReduceWindowOptions", windowDimensions=[1, 3], bodySubgraphIndex=1)
    graph = _with_region("STABLEHLO_REDUCE_WINDOW", settings, (4, 4), ["STABLEHLO_MAXIMUM"]).load()
    assert (graph.ops[0].kind, count(graph).total_elementwise) == ("pool", 48)


@pytest.mark.parametrize("name", ["STABLEHLO_REDUCE", "STABLEHLO_REDUCE_WINDOW"])
def test_region_with_an_unknown_operator_is_unknown(name: str) -> None:
    table = {
        "STABLEHLO_REDUCE": "StablehloReduceOptions",
        "STABLEHLO_REDUCE_WINDOW": "StablehloReduceWindowOptions",
    }
    graph = _with_region(name, options(table[name], bodySubgraphIndex=1), (4,), ["NobodyKnows"]).load()
    assert (graph.ops[0].kind, count(graph).known.tolist()) == (name, [False])


def test_builtin_reduce_window_takes_its_window_from_a_constant() -> None:
    file = File()
    data, start = file.main.tensor("x", (4, 6)), file.main.tensor("start", (), data=np.zeros(1, np.float32))
    window = file.main.tensor("window", (2,), "INT64", np.array([1, 3], np.int64))
    ones = file.main.tensor("ones", (2,), "INT64", np.array([1, 1], np.int64))
    out = file.main.tensor("y", (4, 4))
    file.main.op("REDUCE_WINDOW", [data, start, window, ones, ones], [out])
    file.main.ends([data], [out])
    assert count(file.load()).total_elementwise == 16 * 3


def test_builtin_reduce_window_of_unknown_size_is_unknown() -> None:
    graph = single("REDUCE_WINDOW", [(4, 6), (), (2,), (2,), (2,)], [(4, 4)])
    assert count(graph).known.tolist() == [False]


def test_composite_attributes_and_large_custom_options_do_not_matter() -> None:
    file = File()
    data, out = file.main.tensor("x", (4,)), file.main.tensor("y", (4,))
    file.main.op("MyOwn", [data], [out], largeCustomOptionsOffset=2**40, largeCustomOptionsSize=2**30)
    file.main.ends([data], [out])
    assert file.load().ops[0].kind == "MyOwn"
