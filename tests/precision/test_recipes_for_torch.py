"""Configurations for torchao: modules by name, and its results if it is installed."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from precision.carrying_out import from_the_page, network, relative_error
from sizeup import load
from sizeup.cost import count
from sizeup.dtypes import precision
from sizeup.errors import SizeupError
from sizeup.memory import usage
from sizeup.mixed_precision import layers
from sizeup.mixed_precision.recipes import config_for_torchao, write_recipe

pytestmark = pytest.mark.extras


def test_torchao_is_told_of_modules() -> None:
    import torch

    module = network()
    graph = load(module, inputs=(torch.zeros(1, 3, 16, 16),))
    precisions = ["int8", "fp32", "int4", "int2", "int8"]
    model_layers = layers(graph)
    chosen = {layer.op: precision(each) for layer, each in zip(model_layers, precisions, strict=True)}
    recipe = config_for_torchao(graph, chosen)
    assert recipe.content == {
        "one": {"weights": "int8", "activations": "float32"},
        "three": {"weights": "int4", "activations": "float32"},
        "head": {"weights": "int2", "activations": "int8"},
        "last": {"weights": "int8", "activations": "int8"},
    }
    # Weights alone are narrower: 3x8 and 12x10 filters of 8 bits, 8x16 of 4, 16x12 of 2; biases stay.
    biases = 4 * (8 + 8 + 16 + 12 + 10)
    weights = 9 * 3 * 8 + 4 * 9 * 8 * 8 + 9 * 8 * 16 // 2 + 16 * 12 // 4 + 12 * 10
    assert count(recipe.applied(graph)).stored_bytes == weights + biases
    assert usage(recipe.applied(graph)).peak_bytes == usage(graph).peak_bytes
    with pytest.raises(SizeupError, match="torchao cannot write it at fp16; choose fp32, int8, int4 or int2"):
        config_for_torchao(graph, {model_layers[0].op: precision("fp16")})


def test_a_product_without_weights_is_noted_for_torchao() -> None:
    import torch

    class Product(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ x

    recipe = config_for_torchao(load(Product(), inputs=(torch.zeros(4, 4),)), {0: precision("int8")})
    assert recipe.content == {}
    assert recipe.notes == ("has no weights and stays unchanged: 'matmul'",)


def test_what_torchao_does_not_quantize_is_refused() -> None:
    import torch

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.wave = torch.nn.Embedding(8, 8), torch.nn.Conv1d(8, 8, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            made: torch.Tensor = self.wave(self.table(x).mT).mT @ self.table.weight.T
            return made

    graph = load(Tied(), inputs=(torch.zeros(1, 8, dtype=torch.int64),))
    op_by_kind = {layer.kind: layer.op for layer in layers(graph)}
    with pytest.raises(
        SizeupError, match="torchao quantizes only the `weight` of Linear, Conv2d and Embedding"
    ):
        config_for_torchao(graph, {op_by_kind["conv"]: precision("int8")})
    with pytest.raises(SizeupError, match="the weights of module 'table' are read by layers with different"):
        config_for_torchao(graph, {op_by_kind["embedding"]: precision("int8")})


@pytest.mark.filterwarnings("ignore")
def test_torchao_carries_it_out(tmp_path: Path) -> None:
    pytest.importorskip("torchao", reason="torchao is not installed")
    import torch

    sample = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    module = network()
    graph = load(module, inputs=(sample,))
    precisions = ["int8", "fp32", "int4", "int2", "int8"]
    chosen = {layer.op: precision(each) for layer, each in zip(layers(graph), precisions, strict=True)}
    write_recipe(graph, chosen, tmp_path / "modules.json", "torchao")
    made, alike = copy.deepcopy(module), copy.deepcopy(module)
    from_the_page("apply")["apply"](made, tmp_path / "modules.json")
    for name, name_of_precision in zip(("one", "two", "three", "head", "last"), precisions, strict=True):
        weight = made.get_submodule(name).weight
        assert str(getattr(weight, "target_dtype", torch.float32)).endswith(
            name_of_precision.replace("fp", "float")
        )
        rounded = weight.dequantize() if name_of_precision != "fp32" else weight
        if name_of_precision != "fp32":
            assert len(weight.qdata.unique()) <= 2 ** precision(name_of_precision).bits
        alike.get_submodule(name).weight = torch.nn.Parameter(rounded.detach())
    with torch.no_grad():
        assert relative_error(alike(sample).numpy(), made(sample).numpy()) <= 0.1
