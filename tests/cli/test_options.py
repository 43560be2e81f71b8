from __future__ import annotations

from typing import Any

import pytest

from sizeup.cli.options import bindings, model_inputs


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (None, {"inputs": None}),
        (["1x3x224x224"], {"inputs": ((1, 3, 224, 224),), "kwargs": None}),
        (["1x128:int64"], {"inputs": (((1, 128), "int64"),), "kwargs": None}),
        (["x:1x3x224x224"], {"inputs": {"x": (1, 3, 224, 224)}}),
        (["ids:1x128:int64", "mask:1x128"], {"inputs": {"ids": ((1, 128), "int64"), "mask": (1, 128)}}),
        (["input:0:1x2"], {"inputs": {"input:0": (1, 2)}}),
        (["1x2", "mask:3:bool"], {"inputs": ((1, 2),), "kwargs": {"mask": ((3,), "bool")}}),
    ],
)
def test_inputs_are_read_as_the_doors_take_them(texts: list[str] | None, expected: dict[str, Any]) -> None:
    assert model_inputs(texts) == expected


def test_bindings_name_free_dimensions() -> None:
    assert bindings(["batch=1", "a=b=2"]) == {"batch": 1, "a=b": 2}
    assert bindings(None) is None
