"""Keywords of torchinfo and other tools: the error has the keyword to use instead."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import sizeup


@pytest.mark.parametrize("verb", ["analyze", "check", "estimate", "explain"])
@pytest.mark.parametrize("name", ["input_size", "input_shape", "input_data", "example_inputs"])
def test_inputs_by_another_name(verb: str, name: str) -> None:
    expected = rf"^{verb}\(\) takes inputs=\(\(1, 3, 224, 224\),\), not {name}=$"
    with pytest.raises(TypeError, match=expected):
        getattr(sizeup, verb)("m.onnx", **{name: (1, 3, 224, 224)})


def test_compare_has_the_hint_too() -> None:
    with pytest.raises(
        TypeError, match=r"^compare\(\) takes inputs=\(\(1, 8\), \(1, 4\)\), not input_size=$"
    ):
        sizeup.compare("a.onnx", "b.onnx", input_size=[(1, 8), [1, 4]])  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 3, 8, 8], "inputs=((1, 3, 8, 8),)"),
        (np.full((1, 4), 7.25), "inputs=(tensor,)"),
        ({"x": 1}, "inputs=((1, 3, 224, 224),)"),
    ],
)
def test_the_hint_has_the_given_shapes_and_no_values(value: Any, expected: str) -> None:
    with pytest.raises(TypeError) as error:
        sizeup.analyze("m.onnx", input_data=value)  # type: ignore[call-arg]
    assert str(error.value) == f"analyze() takes {expected}, not input_data="


def test_a_device_is_a_target_and_a_dtype_a_precision() -> None:
    with pytest.raises(TypeError, match=r"^check\(\) takes target='rpi5', not device=$"):
        sizeup.check("m.onnx", device="rpi5")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^analyze\(\) takes precision='fp16', not dtype=$"):
        sizeup.analyze("m.onnx", dtype="fp16")  # type: ignore[call-arg]


def test_other_keywords_are_refused_as_by_any_function() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'depth'"):
        sizeup.analyze("m.onnx", depth=3)  # type: ignore[call-arg]


def test_signatures_stay_those_of_the_verbs() -> None:
    assert [*inspect.signature(sizeup.analyze).parameters][:3] == ["source", "inputs", "kwargs"]
