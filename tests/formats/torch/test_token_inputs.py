"""Inputs that are token ids by their name are integers; an explicit dtype takes precedence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sizeup
from cli.running import run_command

pytestmark = pytest.mark.extras


class Language(nn.Module):
    """Embeds tokens and positions, and scales by a mask and a float input."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(100, 8)
        self.positions = nn.Embedding(64, 8)

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        scale: Tensor | None = None,
    ) -> Tensor:
        result: Tensor = self.tokens(input_ids)
        if position_ids is not None:
            result = result + self.positions(position_ids)
        for factor in (attention_mask, scale):
            result = result if factor is None else result * factor.unsqueeze(-1)
        return result


def dtypes_of(source: Any, inputs: Any, **options: Any) -> dict[str, str]:
    return {port.name: port.dtype for port in sizeup.analyze(source, inputs, **options).inputs}


@pytest.mark.parametrize("inputs", [{"input_ids": (1, 16)}, ((1, 16),), (1, 16)])
def test_a_shape_of_token_ids_means_integers(inputs: Any) -> None:
    assert dtypes_of(Language(), inputs) == {"input_ids": "int64"}


def test_other_inputs_stay_floats() -> None:
    shapes = dict.fromkeys(("input_ids", "position_ids", "attention_mask", "scale"), (1, 16))
    assert dtypes_of(Language(), shapes) == {
        "input_ids": "int64",
        "position_ids": "int64",
        "attention_mask": "int64",
        "scale": "float32",
    }
    kwargs = {"position_ids": (1, 16), "scale": (1, 16)}
    assert dtypes_of(Language(), ((1, 16),), kwargs=kwargs)["position_ids"] == "int64"


@pytest.mark.parametrize(
    "dtype", ["int32", torch.int32, np.int32, np.dtype("int32"), "torch.int32", "i32"], ids=str
)
def test_an_explicit_dtype_takes_precedence(dtype: Any) -> None:
    assert dtypes_of(Language(), {"input_ids": ((1, 16), dtype)}) == {"input_ids": "int32"}
    mask = {"input_ids": (1, 16), "attention_mask": ((1, 16), "fp16")}
    assert dtypes_of(Language(), mask)["attention_mask"] == "float16"


def test_vectors_of_that_name_are_no_ids() -> None:
    class Pooled(nn.Module):
        def forward(self, tokens: Tensor) -> Tensor:
            return tokens.mean(1)

    assert dtypes_of(Pooled(), {"tokens": (1, 16, 8)}) == {"tokens": "float32"}


def test_symbolic_dimensions_keep_the_integers() -> None:
    graph = sizeup.load(Language(), {"input_ids": (2, 16)}, free={"seq": ("input_ids", 1)})
    assert sizeup.count(graph).at(seq=32).macs == 0  # an embedding has no MACs


def test_the_command_line_takes_token_ids_without_a_dtype(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    content = {"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path)
    for shape in ("input_ids:1x24", "1x24", "input_ids:1x24:int32"):
        done = run_command("analyze", "hf:config.json", "--input", shape, "--json")
        assert done.returncode == 0, done.stderr
        (port,) = json.loads(done.stdout)["model"]["inputs"]
        dtype = "int32" if shape.endswith("int32") else "int64"
        assert (port["shape"], port["dtype"]) == ([1, 24], dtype)
