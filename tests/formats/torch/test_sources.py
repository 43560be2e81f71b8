"""Models by name: local code, torchvision, timm, Hugging Face configurations."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

import sizeup
from sizeup.errors import CorruptModel, UnknownFormat

pytestmark = pytest.mark.extras

CODE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 4, bias=False)

    def forward(self, x):
        return self.layer(x)

def with_inputs():
    return Net(), (torch.zeros(2, 8),)

def broken():
    raise ValueError("no such weights")

def number():
    return 3

ready = Net()
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with factories in the current folder, with a unique name."""
    name = f"own_code_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    return name


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make network access fail."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_a_factory_in_the_current_folder_is_found(code: str) -> None:
    assert sizeup.count(f"{code}:Net", inputs=((2, 8),)).total_macs == 64
    assert sizeup.count(f"{code}:ready", inputs=((3, 8),)).total_macs == 96
    assert sizeup.count(f"{code}:with_inputs").total_macs == 64


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("Nett", "has no 'Nett'; did you mean Net"),
        ("broken", "calling it failed: ValueError: no such weights"),
        ("number", "returned a int"),
    ],
)
def test_a_wrong_factory_is_an_error(code: str, attribute: str, message: str) -> None:
    with pytest.raises(sizeup.LoadError, match=message):
        sizeup.load(f"{code}:{attribute}")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("no_such_package:model", "no module 'no_such_package'"),
        ("torchvision:resnet5", "did you mean resnet50"),
        ("torchvision:fasterrcnn_resnet50_fpn", "detectors"),
        ("timm:vit_tinny_patch16_224", "did you mean vit_tiny_patch16_224"),
        ("timm:", "no name after the colon"),
        ("hf:no/such/config.json", "no such file"),
    ],
)
def test_a_wrong_name_is_an_error(source: str, message: str) -> None:
    with pytest.raises(sizeup.LoadError, match=message):
        sizeup.load(source)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    "source", ["torchvision:resnet18", "torchvision:fcn_resnet50", "timm:mobilenetv3_small_050"]
)
def test_nothing_is_downloaded(source: str) -> None:
    assert sizeup.count(source).total_macs > 0


def test_batch_can_be_bound() -> None:
    one, three = (sizeup.count("torchvision:resnet18", bind={"batch": n}).total_macs for n in (1, 3))
    assert three == 3 * one
    with pytest.raises(sizeup.LoadError, match="cannot bind width"):
        sizeup.load("torchvision:resnet18", bind={"width": 3})


def test_a_named_model_takes_other_inputs() -> None:
    # Half the side: a quarter of the convolutions' work (all sides divide), the same classifier.
    full, half = (sizeup.count("torchvision:resnet18", inputs=((1, 3, n, n),)).total_macs for n in (224, 112))
    assert 4 * (half - 512_000) != full - 512_000  # 7x7 becomes 4x4 by rounding up
    assert half * 3 < full < half * 4


@pytest.mark.usefixtures("no_network")
def test_a_configuration_needs_no_network_and_no_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    report = sizeup.analyze(f"hf:{tmp_path}")
    assert report.totals.params == 124_439_808  # GPT-2's published 124 M, without the tied output layer


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("{", CorruptModel, "not JSON"),
        ("[]", CorruptModel, "model_type is missing"),
        ('{"model_type": "no-such-type"}', sizeup.LoadError, "no model type 'no-such-type'"),
        (
            '{"model_type": "bert", "architectures": ["NoSuchClass"]}',
            sizeup.LoadError,
            "has no class NoSuchClass",
        ),
        ('{"model_type": "bert", "hidden_size": "wide"}', sizeup.LoadError, "bert"),
        ('{"model_type": "bert", "architectures": ["AutoConfig"]}', sizeup.LoadError, "AutoConfig"),
    ],
)
def test_a_wrong_configuration_is_an_error(
    content: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(error, match=message):
        sizeup.load(f"hf:{path}")


def test_a_pickle_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    path.write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
    with pytest.raises(UnknownFormat, match="can run arbitrary code and are not loaded"):
        sizeup.load(path)
    assert not (tmp_path / "ran").exists()
