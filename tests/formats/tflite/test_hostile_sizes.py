"""Options and constants that lie about sizes: none may lower what the rest of a model costs."""

from __future__ import annotations

import copy
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from formats.tflite.factory import File, file_of, options, schema
from formats.tflite.test_operators import CASES
from sizeup import cost
from sizeup.cli import main
from sizeup.errors import CorruptModel, SizeupError
from sizeup.formats import tflite

EXTREMES = (-(2**31), -64, -1, 0, 5, 2**31 - 1)
# A fully connected layer of 64 x 32 weights on 3 rows, next to the false sizes.
MACS, PARAMS = 3 * 32 * 64, 32 * 64

Case = tuple[str, list[Any], list[tuple[int, ...]], Any, tuple[int, ...]]

_CONVOLUTION = options(
    "StablehloConvolutionOptions",
    inputBatchDimension=0, inputFeatureDimension=1, inputSpatialDimensions=[2, 3],
    kernelOutputFeatureDimension=0, kernelInputFeatureDimension=1, kernelSpatialDimensions=[2, 3],
    outputBatchDimension=0, outputFeatureDimension=1, outputSpatialDimensions=[2, 3],
    windowStrides=[1, 1], featureGroupCount=2,
)  # fmt: skip
_ONES = {"strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}
LAYERS: list[Case] = [
    (
        "CONV_2D", [(1, 8, 8, 3), (8, 3, 3, 3), (8,)], [(1, 8, 8, 8)],
        options("Conv2DOptions", **_ONES), (1, 2),
    ),
    (
        "DEPTHWISE_CONV_2D", [(1, 8, 8, 4), (1, 3, 3, 8)], [(1, 8, 8, 8)],
        options("DepthwiseConv2DOptions", depthMultiplier=2, **_ONES), (1,),
    ),
    (
        "TRANSPOSE_CONV", [(4,), (5, 3, 3, 6), (1, 4, 4, 6)], [(1, 9, 9, 5)],
        options("TransposeConvOptions", strideW=1, strideH=1), (0, 1),
    ),
    (
        "STABLEHLO_DOT_GENERAL", [(3, 4, 5), (5, 6, 3)], [(4, 6)],
        options(
            "StablehloDotGeneralOptions", lhsContractingDimensions=[0, 2], rhsContractingDimensions=[2, 0]
        ),
        (),
    ),
    (
        "LOCAL_RESPONSE_NORMALIZATION", [(1, 2, 2, 3)], [(1, 2, 2, 3)],
        options("LocalResponseNormalizationOptions", radius=2), (),
    ),
    ("STABLEHLO_CONVOLUTION", [(1, 8, 8, 8), (8, 4, 3, 3)], [(1, 8, 6, 6)], _CONVOLUTION, (1,)),
    *[(e.name, e.inputs, e.outputs, e.settings, e.weights) for e in CASES if e.settings is not None],
]  # fmt: skip


def with_layer(file: File) -> File:
    data, weights = file.main.tensor("left", (3, 32)), np.zeros((64, 32), np.float32)
    right, product = file.main.tensor("right", (64, 32), data=weights), file.main.tensor("product", (3, 64))
    file.main.op("FULLY_CONNECTED", [data, right], [product])
    file.main.ends([*file.main.table.inputs, data], [*file.main.table.outputs, product])
    return file


def assert_the_rest_counts(content: bytes, what: str) -> None:
    try:
        counted = cost.count(tflite.load(content))
    except SizeupError:
        return
    assert counted.total_macs >= MACS, what
    assert counted.total_params >= PARAMS, what


def changed_settings(settings: Any) -> Iterator[tuple[str, Any]]:
    """Copies of an operator's options, each with one whole number changed."""
    for field, held in vars(settings).items():
        listed = isinstance(held, list)
        if not listed and (isinstance(held, bool) or not isinstance(held, int)):
            continue
        for place in range(len(held)) if listed else [0]:
            for extreme in EXTREMES:
                changed = copy.deepcopy(settings)
                setattr(changed, field, [*held[:place], extreme, *held[place + 1 :]] if listed else extreme)
                yield f"{field}[{place}] = {extreme}", changed


def packed(file: File) -> bytes | None:
    """The bytes of a file, or None if a number does not fit its field."""
    try:
        return file.pack()
    except (TypeError, struct.error):
        return None


@pytest.mark.parametrize("case", LAYERS, ids=lambda case: case[0])
def test_no_option_lowers_what_the_other_operators_cost(case: Case) -> None:
    name, inputs, outputs, settings, weights = case
    for what, changed in changed_settings(settings):
        content = packed(with_layer(file_of(name, inputs, outputs, changed, weights)))
        if content is not None:
            assert_the_rest_counts(content, f"{name} {what}")


def window(sides: list[int]) -> File:
    file = File()
    data, start = file.main.tensor("x", (4, 6)), file.main.tensor("start", (), data=np.zeros(1, np.float32))
    window = file.main.tensor("window", (len(sides),), "INT64", np.array(sides, np.int64))
    ones = file.main.tensor("ones", (2,), "INT64", np.array([1, 1], np.int64))
    out = file.main.tensor("y", (4, 4))
    file.main.op("REDUCE_WINDOW", [data, start, window, ones, ones], [out])
    file.main.ends([data], [out])
    return with_layer(file)


@pytest.mark.parametrize("sides", [[-1, 3], [0, 3], [3]])
def test_a_window_that_covers_nothing_is_refused(sides: list[int]) -> None:
    with pytest.raises(CorruptModel, match="window"):
        window(sides).load()


def test_a_window_beyond_64_bits_is_unknown() -> None:
    counted = cost.count(window([2**40, 2**40]).load())
    assert (counted.known.tolist(), counted.total_macs) == ([False, True], MACS)


@pytest.mark.parametrize("padding", [-128, -1, 2, 127])
@pytest.mark.parametrize("name", ["CONV_2D", "MAX_POOL_2D"])
def test_a_padding_that_the_format_does_not_define_is_refused(name: str, padding: int) -> None:
    case = next(each for each in LAYERS if each[0] == name)
    settings = copy.deepcopy(case[3])
    settings.padding = padding
    with pytest.raises(CorruptModel, match=rf"{name}: padding is {padding}; the format defines 0"):
        file_of(name, case[1], case[2], settings, case[4]).load()


def test_a_plan_in_a_buffer_that_is_not_there_is_refused() -> None:
    file = with_layer(File())
    entry = schema.MetadataT()
    entry.name, entry.buffer = "OfflineMemoryAllocation", 99
    file.model.metadata = [entry]
    with pytest.raises(CorruptModel, match="'OfflineMemoryAllocation' names buffer 99 of"):
        file.load()


LIES = [
    ("MAX_POOL_2D", "filterHeight", -3),
    ("LOCAL_RESPONSE_NORMALIZATION", "radius", -9),
    ("STABLEHLO_DOT_GENERAL", "lhsContractingDimensions", []),
    ("STABLEHLO_CONVOLUTION", "featureGroupCount", -2),
    ("STABLEHLO_CONVOLUTION", "kernelOutputFeatureDimension", 1),
]


@pytest.mark.parametrize(("name", "field", "lie"), LIES)
def test_a_gate_never_says_yes_to_an_option_that_lies(
    name: str, field: str, lie: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = next(each for each in LAYERS if each[0] == name)
    settings = copy.deepcopy(case[3])
    setattr(settings, field, lie)
    path = tmp_path / "model.tflite"
    path.write_bytes(with_layer(file_of(name, case[1], case[2], settings, case[4])).pack())
    with pytest.raises(SystemExit) as ended:
        main(["check", str(path), "--macs", "1k", "--strict"])
    assert ended.value.code not in (0, None)
    assert "YES" not in capsys.readouterr().out
