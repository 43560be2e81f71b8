"""Model inputs: tensors or shapes, several, nested, by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sizeup


class Several(nn.Module):
    """Takes a tensor, a dictionary and keyword arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(8, 4, bias=False)
        self.right = nn.Linear(6, 4, bias=False)

    def forward(
        self, x: Tensor, other: dict[str, Tensor], *, scale: Tensor | None = None, twice: bool = False
    ) -> Any:
        y = self.left(x) + self.right(other["y"])
        y = y if scale is None else y * scale
        return {"y": y, "pair": (self.left(x), y)} if twice else y


def test_positional_nested_and_keyword_inputs_have_their_names() -> None:
    graph = sizeup.load(
        Several(),
        inputs=(torch.zeros(2, 8), {"y": torch.zeros(2, 6)}),
        kwargs={"scale": torch.zeros(4), "twice": True},
    )
    assert [graph.tensors[i].name for i in graph.inputs] == ["x", "other['y']", "scale"]
    # Two rows through 8x4 twice and through 6x4 once.
    assert sizeup.count(graph).total_macs == 2 * (2 * 8 * 4 + 6 * 4)
    assert len(graph.outputs) == 2


@pytest.mark.parametrize(
    "inputs",
    [
        (torch.zeros(2, 8),),
        torch.zeros(2, 8),
        ((2, 8),),
        [(2, 8)],
        (2, 8),
        {"input": (2, 8)},
        (((2, 8), "float32"),),
    ],
    ids=["tuple", "tensor", "shapes", "list", "one shape", "by name", "typed shape"],
)
def test_every_way_to_give_one_input_counts_the_same(inputs: Any) -> None:
    assert sizeup.count(nn.Linear(8, 4, bias=False), inputs=inputs).total_macs == 2 * 8 * 4


def test_a_shape_takes_the_models_number_type() -> None:
    graph = sizeup.load(nn.Linear(8, 4).half(), inputs=((2, 8),))
    assert graph.tensors[graph.inputs[0]].dtype.name == "float16"


def test_a_model_on_the_meta_device_needs_no_weights() -> None:
    with torch.device("meta"):
        module = nn.Linear(1 << 20, 1 << 20, bias=False)
    assert sizeup.count(module, inputs=((1, 1 << 20),)).total_macs == 1 << 40


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((2, 9), "forward failed on"),
        (None, r"forward\(input\) needs input; pass inputs: --input"),
        ((-1, 8), "negative"),
        (3, "tensors or shapes"),
    ],
)
def test_wrong_inputs_are_load_errors(inputs: Any, message: str) -> None:
    with pytest.raises(sizeup.LoadError, match=message):
        sizeup.load(nn.Linear(8, 4), inputs=inputs)


def test_an_unknown_number_type_is_named() -> None:
    with pytest.raises(sizeup.LoadError, match="unknown input dtype 'flat32'"):
        sizeup.load(nn.Linear(8, 4), inputs=(((2, 8), "flat32"),))


# Importing torch's compiler trips over its own deprecated helpers.
@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_a_wrapped_model_counts_as_what_it_wraps() -> None:
    plain = nn.Linear(8, 4, bias=False)
    for wrapped in (torch.compile(plain), nn.DataParallel(plain)):
        assert isinstance(wrapped, nn.Module)
        assert sizeup.count(wrapped, inputs=((2, 8),)).total_macs == 2 * 8 * 4
