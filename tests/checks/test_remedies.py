"""Every remedy that a check proposes, carried out by its own command, has the effect that was stated."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="models of PyTorch are made to fit")

from torch import Tensor, relu
from torch.nn import Conv2d, Linear, Module, Sequential

import sizeup
from sizeup.cli import main
from sizeup.runtimes import RUNTIMES

pytestmark = [pytest.mark.extras, pytest.mark.slow]
Json = dict[str, Any]


def _run(capfd: pytest.CaptureFixture[str], *arguments: str) -> Json:
    with pytest.raises(SystemExit) as left:
        main([*arguments, "--json"])
    captured = capfd.readouterr()
    assert left.value.code in (0, 1, 3, None), captured.err
    result: Json = json.loads(captured.out)
    return result


def _needs(result: Json) -> dict[str, float]:
    return {limit["name"]: limit["need"] for limit in result["limits"]}


def _carried_out(capfd: pytest.CaptureFixture[str], remedy: Json, checked: list[str]) -> Json:
    """The check again, after the remedy's command."""
    program, verb, *rest = shlex.split(remedy["command"])
    assert program == "sizeup"
    if verb == "check":
        return _run(capfd, verb, *rest, "--no-remedies")
    written = rest[rest.index("-o") + 1]
    _run(capfd, verb, *rest)
    model, *others = checked
    if verb == "precision":
        return _run(capfd, "check", model, *others, "--precision", written, "--no-remedies")
    assert verb == "optimize"
    return _run(capfd, "check", written, *others, "--no-remedies")


_CASES = {
    "a plan": ("mlperf_vww96_int8.tflite", "-d", "stm32f401/tflm-cmsis-nn", "--ram", "96KiB"),
    "overlaps": ("mlperf_kws_int8.tflite", "-d", "stm32f401/tflm", "--ram", "17KiB"),
    "fewer bits of some layers": ("mlperf_resnet8_fp32.tflite", "-d", "stm32f446/tflm"),
    "fewer bits of all layers": ("mlperf_resnet8_fp32.tflite", "-d", "stm32f446/tflm", "--ram", "20KiB"),
    "code-books": ("mlperf_resnet8_int8.tflite", "-d", "stm32u585/tflm", "--flash", "220KiB"),
    "less time": ("mlperf_kws_fp32.tflite", "-d", "rpi5/litert", "--latency", "300us", "--expected"),
}


def test_a_remedy_is_found_if_the_runtime_that_verifies_it_is_not_installed(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = shared / "models" / "mlperf_kws_int8.tflite"
    with_it = sizeup.check(model, "stm32f401/tflm", ram="18 KiB")
    monkeypatch.setitem(RUNTIMES, "tflm", RUNTIMES["tflm"]._replace(module="there_is_no_such_module"))
    without = sizeup.check(model, "stm32f401/tflm", ram="18 KiB")
    assert [each.description for each in without.remedies] == [each.description for each in with_it.remedies]
    assert [each.changes for each in without.remedies] == [each.changes for each in with_it.remedies]
    note = "outputs not verified here; the command verifies them and needs tflite-micro: pip install"
    assert without.remedies[0].notes[0].startswith(note)
    assert not with_it.remedies[0].notes[0].startswith("outputs not verified")


@pytest.mark.slow
@pytest.mark.parametrize("case", _CASES)
def test_a_remedy_carried_out_has_the_effect_that_was_stated(
    case: str,
    shared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    name, *options = _CASES[case]
    shutil.copy(shared / "models" / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    before = _run(capfd, "check", name, *options)
    assert before["fits"] is not True
    assert before["remedies"], case
    for remedy in before["remedies"]:
        after = _carried_out(capfd, remedy, [name, *options])
        assert after["fits"] is remedy["fits"]
        for change in remedy["changes"]:
            assert change["before"] == _needs(before)[change["name"]]
            assert _needs(after)[change["name"]] == pytest.approx(change["after"], rel=1e-9)


def _two_convolutions(path: Path) -> Path:
    """A model whose height and width are free."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = [np.zeros(shape, np.float32) for shape in ((16, 3, 3, 3), (8, 16, 3, 3))]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["y"], pads=[1, 1, 1, 1]),
    ]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, "height", "width"])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, "height", "width"])
    stored = [numpy_helper.from_array(each, f"w{number}") for number, each in enumerate(weights)]
    graph = helper.make_graph(nodes, "two", [source], [output], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize("kind", ["onnx", "torch"])
def test_a_smaller_input_is_the_largest_that_fits(kind: str, tmp_path: Path) -> None:
    import torch

    first, second = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(16, 8, 3, padding=1)
    module = torch.nn.Sequential(first, torch.nn.ReLU(), second).eval()
    model: Any = _two_convolutions(tmp_path / "two.onnx") if kind == "onnx" else module

    def checked(side: int, remedies: bool = False) -> sizeup.Check:
        shape: Any = {"x": (1, 3, side, side)} if kind == "onnx" else ((1, 3, side, side),)
        return sizeup.check(model, "stm32h743/tflm", shape, ram="600 KiB", remedies=remedies)

    result = checked(128, remedies=True)
    helps = [each for each in result.remedies if "input" in each.description]
    assert result.fits is False
    assert [each.fits for each in helps] == [True]
    # At the ReLU 16 channels are there twice: 2 x 16 x 64 x 64 x 4 B = 512 KiB; 96 x 96 take 1.1 MiB.
    size = int(helps[0].command.rpartition("x")[2])
    assert size == 64
    assert checked(size).limits[0].need == helps[0].changes[0].after
    assert (checked(size).fits, checked(size + 32).fits) == (True, False)


def test_what_fits_with_room_to_spare_gets_no_advice(shared: Path) -> None:
    result = sizeup.check(shared / "models" / "mlperf_kws_int8.tflite", "stm32f746/tflm")
    assert result.fits is True
    assert result.remedies == ()


def test_a_model_that_only_just_fits_gets_remedies(shared: Path) -> None:
    path = shared / "models" / "mlperf_vww96_int8.tflite"
    exact = sizeup.check(path, "stm32f746/tflm", remedies=False).limits[0].need
    assert exact is not None
    result = sizeup.check(path, "stm32f746/tflm", ram=int(exact))
    assert result.fits is True
    assert result.remedies[0].fits is True
    assert result.remedies[0].changes[0].after < exact


class _Wide(Module):
    """Two inputs, one of which has no fixed size."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = Conv2d(3, 16, 3, padding=1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return relu(self.conv(x)) + y


def wide() -> Module:
    """A factory, as the command line names it."""
    return _Wide().eval()


@pytest.mark.parametrize(
    "inputs",
    [
        ("1x3x96x96", "1x16x1x1"),
        ("x:1x3x96x96", "y:1x16x1x1"),
        ("1x3x96x96", "y:1x16x1x1"),
    ],
)
def test_a_command_repeats_the_inputs_and_how_times_are_judged(
    inputs: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    options = ["-d", "rpi5/ort", "--latency", "10us", "--expected"]
    options += [word for each in inputs for word in ("--input", each)]
    checked = ["tests.checks.test_remedies:wide", *options]
    before = _run(capfd, "check", *checked)
    remedies = [each for each in before["remedies"] if each["command"].startswith("sizeup check")]
    assert {"int8" in each["description"] for each in remedies} == {True, False}
    for remedy in remedies:
        after = _carried_out(capfd, remedy, checked)
        assert after["fits"] is remedy["fits"]
        for change in remedy["changes"]:
            assert _needs(after)[change["name"]] == pytest.approx(change["after"], rel=1e-9)


def test_what_helps_against_budgets_can_be_typed(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(shared / "models" / "mlperf_resnet8_fp32.tflite", tmp_path / "net.tflite")
    monkeypatch.chdir(tmp_path)
    limits = ('arena = "20 KiB"', 'arena = "50 KiB"\nmacs = "1 M"')
    text = "".join(f'[[budget]]\nmodels = "*"\n{each}\n' for each in limits)
    Path("budgets.toml").write_text(text.replace('"*"', '"net.tflite"'))
    before = _run(capfd, "check", "--budget", "budgets.toml", "--remedies")
    (narrow,) = [each for each in before["remedies"] if "int8" in each["description"]]
    assert narrow["command"] == "sizeup check net.tflite --arena 20480 --macs 1000000 --precision int8"
    recipe = "sizeup precision net.tflite --precisions int8 --recipe recipe.json"
    assert f"a check converts nothing; a recipe for a quantizer: {recipe}" in narrow["notes"]
    _run(capfd, *shlex.split(recipe)[1:])
    assert Path("recipe.json").is_file()
    after = _carried_out(capfd, narrow, [])
    assert _needs(after)["arena"] == narrow["changes"][0]["after"]
    Path("budgets.toml").write_text('[[budget]]\nmodels = "net.tflite"\nweights = "10 KiB"')
    before = _run(capfd, "check", "--budget", "budgets.toml", "--remedies")
    (narrow,) = [each for each in before["remedies"] if "int8" in each["description"]]
    report = _run(capfd, *shlex.split(narrow["command"])[1:])
    assert report["totals"]["weight_bytes"] == narrow["changes"][0]["after"]


def test_a_change_that_leaves_unmet_limits_as_they_are_is_no_remedy(shared: Path) -> None:
    """RAM has little headroom, but fits; of the latency in float, only a lower bound is known."""
    check = sizeup.check(
        shared / "models" / "mlperf_kws_fp32.tflite", "stm32f746", ram="70 KiB", latency="60 ms"
    )
    assert {limit.name: limit.fits for limit in check.limits} == {"ram": True, "flash": True, "latency": None}
    assert check.remedies
    for remedy in check.remedies:
        assert any(change.name == "latency" and change.fits for change in remedy.changes)
    near = sizeup.check(shared / "models" / "mlperf_kws_fp32.tflite", "stm32f746", ram="70 KiB")
    assert all(limit.fits for limit in near.limits)
    assert any(
        "memory plan" in remedy.description or "int8" in remedy.description for remedy in near.remedies
    )


def test_an_input_of_one_number_has_no_smaller_one() -> None:
    result = sizeup.check(Sequential(Linear(1, 64), Linear(64, 1)).eval(), None, ((1, 1),), macs=100)
    assert (result.fits, result.remedies) == (False, ())
