"""Models that fail: the message names the module, the operator and the shapes, and what to do."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import nn

import sizeup
from cli.running import run_command
from failing_modules import CASES, Code, Masked, branching

pytestmark = pytest.mark.extras

# What never appears: torch's internals, printed tensors and values of tensors.
INTERNAL = re.compile(
    r"fake ?tensor|meta tensor|__torch|c10|frame #|tensor\(|Parameter containing|7\.25|0\., "
    r"|\b0x[0-9a-f]{4}|SymInt|RuntimeError: (?!the sum)|backend|\n",
    re.IGNORECASE,
)


def message_of(module: nn.Module, inputs: Any) -> str:
    with pytest.raises(sizeup.LoadError) as error:
        sizeup.analyze(module, inputs)
    return str(error.value)


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_a_failure_is_a_plain_statement(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "GPU" and torch.version.cuda:
        pytest.skip("this PyTorch computes shapes on GPUs that are not there")
    search = Mock(return_value=[])  # of all objects of the process, which takes seconds
    monkeypatch.setattr(gc, "get_referrers", search)
    make, inputs, expected = CASES[name]
    message = message_of(make(), inputs)
    assert INTERNAL.search(message) is None, message
    assert expected in re.sub(r"line \d+ of", "line LINE of", message)
    assert message.startswith(f"{type(make()).__name__}: forward failed on ")
    assert len(message) < 500
    assert not search.called or name == "features"  # autograd keeps a tensor there


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (None, "forward(x, mask) needs x, mask; pass inputs: --input 1x3x224x224 or inputs="),
        (((1, 4),), "forward(x, mask) also needs 'mask'; add --input mask:SHAPE or 'mask' to inputs"),
        (((1, 4), (1, 4), (1, 4)), "forward(x, mask) takes 2 inputs, 3 were given"),
        ({"x": (1, 4), "masc": (1, 4)}, "forward(x, mask) has no input 'masc'; did you mean mask?"),
    ],
)
def test_inputs_that_forward_does_not_take_are_named(inputs: Any, expected: str) -> None:
    message = message_of(Masked(), inputs)
    assert message.startswith(f"Masked: {expected}")


@pytest.mark.parametrize("function", [branching, lambda x: torch.from_numpy(x.numpy() + 1)])
def test_a_model_without_weights_that_needs_values_says_where(function: Callable[..., Any]) -> None:
    with torch.device("meta"):
        module = nn.Sequential(nn.Linear(4, 4), Code(function))
    message = message_of(module, ((1, 4),))
    assert INTERNAL.search(message) is None, message
    assert "in 1.body (Body)" in message
    assert "tensor values" in message


def test_the_note_on_a_real_run_has_no_internals() -> None:
    note = sizeup.load(Code(lambda x: x * int(x.sum() > 0)), inputs=(torch.ones(1, 4),)).notes[-1]
    assert note.startswith("traced with real data: in body (Body)")
    assert INTERNAL.search(note) is None


def test_an_exported_program_says_where_it_fails(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    program = torch.export.export(module, (torch.zeros(1, 4),))
    torch.export.save(program, tmp_path / "m.pt2")
    for source in (program, tmp_path / "m.pt2"):
        with pytest.raises(sizeup.LoadError) as error:
            sizeup.analyze(source, ((1, 5),))
        assert "axis 1: conflicting sizes 4 and 5" in str(error.value)


FACTORY = """
import torch


class Net(torch.nn.Module):
    def forward(self, image):
        if image.shape[1] != 3:
            raise ValueError(f"needs RGB, got {image}")
        return image


def net():
    return Net()


def broken():
    raise ValueError(f"no such weights {torch.full((2,), 7.25)}")
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("nets:net", "--input", "1x4x8x8"),
            "net: forward failed on 1x4x8x8: in Net, line 8 of nets.py: ValueError: needs RGB, got a tensor",
        ),
        (("nets:net",), "net: forward(image) needs image; pass inputs: --input 1x3x224x224"),
        (("nets:broken",), "nets:broken: calling it failed: ValueError: no such weights a tensor"),
        (
            ("torchvision:resnet18", "--input", "1x4x224x224"),
            (
                "resnet18: forward failed on 1x4x224x224: in conv1 (Conv2d), convolution of 1x4x224x224,"
                " 64x3x7x7: the input has 4 channels, and the layer takes 3; check the inputs"
            ),
        ),
        (
            ("timm:resnet18", "--input", "1x3x224"),
            "resnet18: forward failed on 1x3x224: in ",
        ),
    ],
)
def test_the_command_line_shows_the_same(
    arguments: tuple[str, ...], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec(arguments[0].partition(":")[0]) is None and not arguments[0].startswith("nets"):
        pytest.skip("the model zoo is not installed")
    (tmp_path / "nets.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    done = run_command("analyze", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    text = " ".join(done.stderr.split())
    assert expected in text
    assert INTERNAL.search(text) is None
    sys.modules.pop("nets", None)


def test_hf_models_name_the_module(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(
        '{"model_type": "bert", "hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1,'
        ' "intermediate_size": 64, "vocab_size": 100}'
    )
    done = run_command("analyze", f"hf:{tmp_path}", "--input", "input_ids:1x16:float32")
    assert done.returncode == 2
    text = " ".join(done.stderr.split())
    assert "in embeddings.word_embeddings (Embedding), embedding of 100x32, 1x16: an embedding takes" in text
    assert INTERNAL.search(text) is None
