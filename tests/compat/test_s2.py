"""The DNN analyzer, row by row: its call, its table, its totals and its benchmarks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from old_texts import blocks, text

torch = pytest.importorskip("torch", reason="the analyzer reads PyTorch models")

from sizeup.compat.dnn_analyzer import COLUMNS, SUPPORTED, ModelAnalyse  # noqa: E402 - needs torch
from sizeup.formats.torch.zoo import import_torchvision  # noqa: E402

pytestmark = pytest.mark.extras

nn = torch.nn
IMAGE = (3, 224, 224)
TOTALS = """Total Storage:  13.37 MB
Total Parameters:  3504872
Total inference memory:  74.25 MB
Total number of Macs:  308.87 MMAC
Total Memory Read + Write:  162.19 MB
"""
# params (M), storage, inference, read + write (MB = 2**20), MACs (G), and the decimals that each is given to.
BENCHMARKS = {
    "alexnet": ("61.1", "233.08", "4.19", "241.86", "0.649"),
    "densenet121": ("7.98", "30.44", "147.1", "359.71", "2.79"),
    "densenet201": ("20", "76.35", "219.59", "581.5", "4.28"),
    "resnet18": ("11.69", "44.59", "28.53", "102.88", "1.59"),
    "resnet50": ("25.56", "97.49", "122.22", "342.89", "3.54"),
    "mobilenet_v2": ("3.5", "13.37", "74.25", "162.19", "0.31"),
    "vgg11": ("132.9", "506.83", "62.69", "632.59", "7.62"),
    "vgg11_bn": ("132.9", "506.85", "91.02", "689.27", "7.64"),
    "vgg16": ("138.4", "527.79", "109.39", "746.95", "15.49"),
    "vgg16_bn": ("138.4", "527.82", "161.07", "850.35", "15.52"),
    "vgg19": ("143.7", "548.05", "119.34", "787.12", "19.65"),
    "vgg19_bn": ("143.7", "548.09", "176", "900.47", "19.68"),
    "mobilenet_v3_small": ("2.54", "9.7", "15.67", "36.55", "0.0547"),
    "mobilenet_v3_large": ("5.48", "20.92", "48.23", "108.64", "0.2209"),
}


@pytest.fixture(scope="module")
def models() -> Any:
    if import_torchvision() is None:
        pytest.skip("torchvision is not installed")
    from torchvision import models

    return models


@pytest.fixture
def without_weights(models: Any) -> Callable[[str], ModelAnalyse]:
    def analyse(name: str) -> ModelAnalyse:
        with torch.device("meta"):
            model = getattr(models, name)()
        return ModelAnalyse(model, IMAGE)

    return analyse


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|\n").split("|")]


def table(printed: str) -> list[list[str]]:
    return [cells(line) for line in printed.splitlines() if line.startswith("| ")]


def as_given(value: float, example: str) -> float:
    """A number rounded to as many decimals as the example has."""
    return round(value, len(example.partition(".")[2]))


def test_s2_1_the_snippet_of_the_text(shared: Path, models: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (snippet,) = (block for block in blocks(text(shared, 2), "python") if "import" in block)
    ours = snippet.replace("from dnn_analyzer", "from sizeup.compat.dnn_analyzer")
    assert ours != snippet
    exec(compile(ours, "snippet", "exec"), {})
    printed = capsys.readouterr().out
    assert TOTALS in printed
    # And as ACCEPTANCE names it, with a batch.
    twice = ModelAnalyse(nn.Conv2d(1, 2, 3), (1, 8, 8), 2)
    assert twice.total_macs == 2 * ModelAnalyse(nn.Conv2d(1, 2, 3), (1, 8, 8)).total_macs == 2 * 18 * 36


def test_s2_2_eight_columns(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ModelAnalyse(nn.Sequential(nn.Conv2d(1, 1, 1)), (1, 4, 4))
    (head, _) = table(capsys.readouterr().out)
    assert head == list(COLUMNS)
    in_text = re.search(r"^\| module name.*$", text(shared, 2), re.MULTILINE)
    assert in_text is not None
    assert head == cells(in_text[0])


def test_s2_3_five_total_lines(shared: Path, without_weights: Any, capsys: Any) -> None:
    without_weights("mobilenet_v2")
    said = [line for line in text(shared, 2).splitlines() if line.startswith("Total ")]
    assert len(said) == 5
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("Total ")] == said


def test_s2_4_units(capsys: pytest.CaptureFixture[str]) -> None:
    # 1 x 1 x 1024 x 256 numbers of 4 B are 2**20 B; 1,234,000 weights are 4.70733... MiB.
    found = ModelAnalyse(nn.Linear(1234, 1000, bias=False), (1, 1, 1234))
    assert found.total_storage_bytes == 4_936_000
    printed = capsys.readouterr().out
    assert "Total Storage:  4.71 MB" in printed
    assert table(printed)[1][4] == "4.707"
    ModelAnalyse(nn.Identity(), (1, 1024, 256))
    assert "Total inference memory:  1.0 MB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("layer", "shape", "macs"),
    [
        (nn.Conv1d(4, 6, 3, stride=2), (4, 21), 4 * 6 * 3 * 10 / 2),
        (nn.Conv3d(2, 4, 3, stride=(1, 2, 2)), (2, 5, 9, 9), 2 * 4 * 27 * 3 * 4 * 4 / 4),
        (nn.Conv2d(4, 8, 3, stride=2, groups=2), (4, 9, 9), 9 * 4 * 4 * 16 / 4),
        (nn.ReLU(), (4, 6), 24),
        (nn.ReLU6(), (4, 6), 24),
        (nn.PReLU(4), (4, 6), 24),
        (nn.LeakyReLU(), (4, 6), 24),
        (nn.MaxPool1d(2), (4, 6), 24),
        (nn.MaxPool2d(2), (4, 6, 6), 144),
        (nn.MaxPool3d(2), (4, 6, 6, 6), 864),
        (nn.AvgPool1d(2), (4, 6), 24),
        (nn.AvgPool2d(2), (4, 6, 6), 144),
        (nn.AvgPool3d(2), (4, 6, 6, 6), 864),
        (nn.AdaptiveMaxPool1d(2), (4, 6), 24),
        (nn.AdaptiveMaxPool2d(2), (4, 6, 6), 144),
        (nn.AdaptiveMaxPool3d(2), (4, 6, 6, 6), 864),
        (nn.AdaptiveAvgPool1d(2), (4, 6), 24),
        (nn.AdaptiveAvgPool2d(2), (4, 6, 6), 144),
        (nn.AdaptiveAvgPool3d(2), (4, 6, 6, 6), 864),
        (nn.BatchNorm1d(4), (4, 6), 48),
        (nn.BatchNorm2d(4), (4, 6, 6), 288),
        (nn.BatchNorm3d(4, affine=False), (4, 6, 6, 6), 864),
        (nn.Linear(6, 5), (6,), 30),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, nn.Module) else None,
)
def test_s2_5_every_listed_layer(layer: Any, shape: tuple[int, ...], macs: float) -> None:
    found = ModelAnalyse(nn.Sequential(layer), shape)
    assert [each.supported for each in found.layers] == [True]
    assert found.total_macs == macs


def test_s2_5_the_list_is_that_of_the_text(shared: Path) -> None:
    section = text(shared, 2).partition("## Supported Layers")[2].partition("---")[0]
    assert set(re.findall(r"[A-Z]\w+", section)) == SUPPORTED


def test_s2_6_the_formulas_of_the_original() -> None:
    layers = [nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.PReLU(8), nn.MaxPool2d(2), nn.Dropout()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 7 * 7, 10))
    conv, norm, slope, pool, dropout, flat, linear = ModelAnalyse(model, (3, 31, 31)).layers
    made = 8 * 15 * 15
    assert (conv.read_bytes, conv.written_bytes) == (4 * (3 * 31 * 31 + 8 * 27 + 8), 4 * made)
    assert (norm.read_bytes, norm.written_bytes) == (4 * (made + 2 * 8), 4 * made)
    assert (slope.read_bytes, slope.written_bytes) == (4 * (made + 8), 4 * made)
    assert (pool.read_bytes, pool.written_bytes) == (4 * made, 4 * 8 * 7 * 7)
    assert (linear.read_bytes, linear.written_bytes) == (4 * linear.parameters, 4 * 10)
    assert [each.inference_bytes for each in (conv, pool, dropout, flat, linear)] == [
        *(4 * made, 4 * 392, 4 * 392, 4 * 392, 40)
    ]
    assert (dropout.macs, dropout.read_bytes, dropout.written_bytes) == (0, 0, 0)
    assert conv.macs == 3 * 3 * 3 * (15 / 2) * (15 / 2) * 8
    assert (norm.macs, slope.macs, pool.macs, linear.macs) == (2 * made, made, made, 3920)
    assert linear.storage_bytes == 4 * (3920 + 10)


def test_s2_7_the_printed_rows_of_mobilenet(shared: Path, without_weights: Any, capsys: Any) -> None:
    expected = [row[:-1] for row in table(text(shared, 2)) if row[0] in (*SUPPORTED, "Dropout")]
    expected = [row for row in expected if len(row) == 7]
    assert len(expected) == 15
    found = without_weights("mobilenet_v2")
    printed = capsys.readouterr().out
    rows = [row[:-1] for row in table(printed)[1:]]
    assert rows[:7] == expected[:7]
    assert rows[-8:] == expected[7:]
    assert TOTALS in printed
    assert len(found.layers) == 141


@pytest.mark.parametrize("name", BENCHMARKS)
def test_s2_8_benchmark_table(name: str, without_weights: Any) -> None:
    found = without_weights(name)
    params, *others = BENCHMARKS[name]
    assert as_given(found.total_parameters / 1e6, params) == float(params)
    sizes = (found.total_storage_bytes, found.total_inference_bytes, found.total_moved_bytes)
    values = [*(size / 2**20 for size in sizes), found.total_macs / 1e9]
    for value, given in zip(values, others, strict=True):
        assert as_given(value, given) == float(given), given


def test_s2_8_the_text_has_the_same_networks(shared: Path) -> None:
    lines = text(shared, 2).partition("## Some benchmarks")[2].splitlines()
    rows = {cells(line)[0]: cells(line)[1:] for line in lines if "(3, 224, 224)" in line}
    assert list(rows) != []
    assert set(rows) == set(BENCHMARKS)
    for name in set(rows) - {"mobilenet_v3_small", "mobilenet_v3_large"}:
        for given, ours in zip(rows[name][1:], BENCHMARKS[name], strict=True):
            said = given.replace(",", ".")
            assert as_given(float(ours), said) == float(said)


def as_in_torchvision_0_10(model: Any) -> Any:
    """MobileNetV3 with the blocks of torchvision 0.9 and 0.10.

    There a convolution and its norm without an activation were followed by an Identity, and squeeze and
    excitation called functions for its pool and its gate.
    """
    from torchvision.ops.misc import Conv2dNormActivation, SqueezeExcitation

    class Excitation(SqueezeExcitation):  # type: ignore[misc]  # torchvision has no types
        def forward(self, inputs: Any) -> Any:
            scale = nn.functional.adaptive_avg_pool2d(inputs, 1)
            scale = self.fc2(self.activation(self.fc1(scale)))
            return nn.functional.hardsigmoid(scale) * inputs

    for module in model.modules():
        if isinstance(module, Conv2dNormActivation) and len(module) == 2:
            module.append(nn.Identity())
        elif isinstance(module, SqueezeExcitation):
            module.__class__ = Excitation
    return model


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "mobilenet_v3_large"])
def test_s2_8_older_blocks_give_the_rows_of_the_text(name: str, models: Any, shared: Path) -> None:
    (row,) = (line for line in text(shared, 2).splitlines() if line.startswith(name))
    given = [cell.replace(",", ".") for cell in cells(row)[2:]]
    with torch.device("meta"):
        found = ModelAnalyse(as_in_torchvision_0_10(getattr(models, name)()), IMAGE)
    sizes = (found.total_storage_bytes, found.total_inference_bytes, found.total_moved_bytes)
    values = [found.total_parameters / 1e6, *(size / 2**20 for size in sizes), found.total_macs / 1e9]
    for value, printed in zip(values, given, strict=True):
        assert as_given(value, printed) == float(printed)


def test_s2_9_the_right_macs_beside_it(without_weights: Any, capsys: Any) -> None:
    found = without_weights("resnet50")
    assert found.right_macs == 4_089_184_256
    assert "a pass computes 4089.18 MMAC" in capsys.readouterr().out
    parts: dict[str, float] = {}
    for layer in found.layers:
        parts[layer.name] = parts.get(layer.name, 0.0) + layer.macs / 1e6
    assert round(sum(parts.values()), 2) == 3542.09
    pools = parts.pop("MaxPool2d") + parts.pop("AdaptiveAvgPool2d")
    assert {name: round(value, 2) for name, value in parts.items()} == {
        "Conv2d": 3507.30,
        "BatchNorm2d": 22.23,
        "ReLU": 9.61,
        "Linear": 2.05,
    }
    assert round(pools, 2) == 0.90


def test_s2_10_duration_is_measured_and_sums_to_all(capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Conv2d(3, 64, 5), nn.ReLU(), nn.Conv2d(64, 1, 1), nn.Flatten())
    found = ModelAnalyse(model, (3, 64, 64))
    shares = [row[-1] for row in table(capsys.readouterr().out)[1:]]
    assert all(share.endswith(" %") for share in shares)
    assert sum(float(share.removesuffix(" %")) for share in shares) == pytest.approx(100, abs=0.03)
    seconds = [layer.seconds or 0.0 for layer in found.layers]
    assert seconds[0] > seconds[-1] > 0  # 1.7 million MACs, and a view


def test_s2_11_classes_stay_as_they_were() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).train()
    calls = {kind: kind.__call__ for kind in (nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.Sequential)}
    state = {name: value.clone() for name, value in model.state_dict().items()}
    first = ModelAnalyse(model, (3, 8, 8)).rows()
    second = ModelAnalyse(model, (3, 8, 8)).rows()
    assert [row[:-1] for row in first] == [row[:-1] for row in second]
    assert calls == {kind: kind.__call__ for kind in calls}
    assert all(module.training and not module._forward_hooks for module in model.modules())
    assert not torch.nn.modules.module._global_forward_hooks
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_s2_12_unsupported_layers_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Hardswish(), nn.Hardswish(), nn.Dropout(), nn.ReLU())
    found = ModelAnalyse(model, (4, 4, 4))
    assert "Not supported for Macs calculation: Hardswish (2), Dropout (1)" in capsys.readouterr().out
    assert [layer.supported for layer in found.layers] == [False, False, False, True]
