"""Inputs of a comparison: those of code, and of a file as far as they match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import sizeup
from cli.running import run_command

pytestmark = pytest.mark.extras

SHAPE = (1, 3, 16, 16)
MACS = 16 * 16 * 8 * 3 * 9


class Net(torch.nn.Module):
    """One convolution without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)

    def forward(self, x: Any) -> Any:
        return self.conv(x)


def onnx_model(*sizes: int | str, name: str = "x") -> Any:
    """The same convolution as an ONNX model; a size that is a text is a symbolic dimension."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weight = helper.make_tensor("w", kind, (8, 3, 3, 3), [0.0] * 216)
    node = helper.make_node("Conv", [name, "w"], ["y"], pads=[1, 1, 1, 1])
    graph = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info(name, kind, sizes)],
        [helper.make_tensor_value_info("y", kind, None)],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture
def fixed(tmp_path: Path) -> Path:
    onnx.save(onnx_model(*SHAPE), tmp_path / "fixed.onnx")
    return tmp_path / "fixed.onnx"


@pytest.fixture
def dynamic(tmp_path: Path) -> Path:
    onnx.save(onnx_model("batch", 3, "height", "width", name="image"), tmp_path / "dynamic.onnx")
    return tmp_path / "dynamic.onnx"


def macs(comparison: sizeup.Comparison) -> tuple[int, int]:
    totals = comparison.to_dict()["totals"]["macs"]
    return totals["a"], totals["b"]


@pytest.mark.parametrize(
    "inputs", [(SHAPE,), SHAPE, {"x": SHAPE}, (torch.zeros(SHAPE),), {"x": (SHAPE, "float32")}]
)
def test_inputs_are_those_of_the_module(inputs: Any, fixed: Path) -> None:
    assert macs(sizeup.compare(Net(), fixed, inputs)) == (MACS, MACS)
    assert macs(sizeup.compare(fixed, Net(), inputs=inputs)) == (MACS, MACS)


def test_a_file_of_fixed_shapes_keeps_them(fixed: Path) -> None:
    assert macs(sizeup.compare(Net(), fixed, ((2, *SHAPE[1:]),))) == (2 * MACS, MACS)


def test_a_name_of_the_file_with_another_size_is_an_error(fixed: Path) -> None:
    with pytest.raises(sizeup.LoadError, match=r"axis 0 of input 'x' is 1 in the model, not 2"):
        sizeup.compare(Net(), fixed, {"x": (2, *SHAPE[1:])})


def test_symbolic_dimensions_of_the_file_take_the_sizes_in_order(dynamic: Path) -> None:
    assert macs(sizeup.compare(Net(), dynamic, ((2, 3, 16, 16),))) == (2 * MACS, 2 * MACS)
    assert macs(sizeup.compare(Net(), onnx.load(dynamic), ((2, 3, 16, 16),))) == (2 * MACS, 2 * MACS)


def test_inputs_that_do_not_match_leave_the_dimensions_to_be_bound(dynamic: Path) -> None:
    with pytest.raises(sizeup.UnboundDimension, match="batch"):
        sizeup.compare(Net(), dynamic, {"x": SHAPE})
    sizes = {"batch": 1, "height": 16, "width": 16}
    assert macs(sizeup.compare(Net(), dynamic, {"x": SHAPE}, bind=sizes)) == (MACS, MACS)


def test_each_side_can_have_its_own_options(fixed: Path, dynamic: Path) -> None:
    shape = (4, 3, 16, 16)
    compared = sizeup.compare(Net(), dynamic, (SHAPE,), inputs_b={"image": shape})
    assert macs(compared) == (MACS, 4 * MACS)
    sizes = {"batch": 2, "height": 16, "width": 16}
    assert macs(sizeup.compare(fixed, dynamic, bind_b=sizes, bind={})) == (MACS, 2 * MACS)
    assert macs(sizeup.compare(Net(), Net(), (SHAPE,), inputs_b=(shape,))) == (MACS, 4 * MACS)
    compared = sizeup.compare(
        Net(), Net(), (SHAPE,), precision_b="int8", target="rpi5/ort", target_b="rpi4/ort"
    )
    totals = compared.to_dict()["totals"]["weight_bytes"]
    assert (totals["a"], totals["b"]) == (4 * 216, 216)
    assert [each.target.name for each in (compared.a, compared.b) if each.target] == ["rpi5/ort", "rpi4/ort"]


def test_a_report_stays_as_it_is(fixed: Path) -> None:
    report = sizeup.analyze(fixed)
    assert macs(sizeup.compare(report, Net(), ((2, *SHAPE[1:]),))) == (MACS, 2 * MACS)
    with pytest.raises(
        sizeup.SizeupError, match=r"^inputs= does not apply to two reports: analyze the model"
    ):
        sizeup.compare(report, report, (SHAPE,))
    with pytest.raises(sizeup.SizeupError, match=r"^precision_b= does not apply to b, a report: analyze"):
        sizeup.compare(Net(), report, (SHAPE,), precision_b="int8")


def test_the_command_line_takes_inputs_of_code_with_a_file(
    dynamic: Path, fixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import torch\n\ndef net():\n    return torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)\n"
    (tmp_path / "own_net.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    for file in (dynamic, fixed):
        done = run_command("compare", "own_net:net", file, "--input", "1x3x16x16")
        assert (done.returncode, done.stderr) == (0, "")
        assert "B has the same MACs, parameters and weights" in done.stdout
    done = run_command(
        "compare", "own_net:net", dynamic, "--input", "1x3x16x16", "--input-b", "image:2x3x16x16"
    )
    assert done.returncode == 0
    assert "55.3 k" in done.stdout
    assert "111 k" in done.stdout
