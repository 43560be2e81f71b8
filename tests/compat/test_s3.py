"""Tensorscope, row by row: elements, limits and estimates on graphics cards."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from old_texts import blocks, text
from sizeup.compat.tensorscope import CARDS, card
from sizeup.errors import SizeupError, TargetError

torch = pytest.importorskip("torch", reason="Tensorscope reads PyTorch models")

from sizeup.compat.tensorscope import (  # noqa: E402 - needs torch
    HEADERS,
    PRECISIONS,
    ElemCountAnalysis,
    analyze_model,
)
from sizeup.formats.torch.zoo import import_torchvision  # noqa: E402

pytestmark = pytest.mark.extras

nn, F = torch.nn, torch.nn.functional
GTX = "NVIDIA GeForce GTX 1650 Ti"
IMAGE = (1, 3, 224, 224)
# GB/s; fp64, fp32, fp16, bf16 TFLOPS.
NINE = {
    GTX: (192, 0.095, 3, 6, None),
    "NVIDIA A100-PCIE-40GB": (1555, 19.5, 156, 312, 312),
    "NVIDIA A100 80GB PCIe": (1935, 19.5, 156, 312, 312),
    "NVIDIA A100-SXM4-40GB": (1555, 19.5, 156, 312, 312),
    "NVIDIA A100-SXM4-80GB": (2039, 19.5, 156, 312, 312),
    "Tesla V100-SXM2-16GB": (900, 7.8, 15.7, 125, None),
    "Tesla V100-SXM2-32GB": (900, 7.8, 15.7, 125, None),
    "Tesla V100-PCIE-16GB": (900, 7, 14, 112, None),
    "Tesla V100-PCIE-32GB": (900, 7, 14, 112, None),
}


@pytest.fixture(scope="module")
def models() -> Any:
    if import_torchvision() is None:
        pytest.skip("torchvision is not installed")
    from torchvision import models

    return models


@pytest.fixture(scope="module")
def resnet(models: Any) -> Any:
    with torch.device("meta"):
        return models.resnet18().eval()


class Called(torch.nn.Module):  # type: ignore[name-defined,misc]  # torch may not be there
    """A model that is one function of its inputs."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def elements(function: Any, *shapes: tuple[int, ...]) -> Counter[str]:
    inputs = tuple(torch.zeros(shape) for shape in shapes)
    return +ElemCountAnalysis(Called(function), inputs).by_operator()


def test_s3_1_the_snippet_and_the_roll_ups(
    shared: Path, models: Any, resnet: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (snippet,) = (block for block in blocks(text(shared, 3), "") if "ElemCountAnalysis(" in block)
    exec(
        compile(snippet.replace("from tensorscope", "from sizeup.compat.tensorscope"), "snippet", "exec"), {}
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(11_679_912 + 9_660_904 * 32)
    assert len(lines) == 3
    found = ElemCountAnalysis(resnet, torch.zeros(IMAGE, device="meta"))
    modules = found.by_module()
    assert found.total == found.total() == modules[""] == sum(found.by_operator().values()) == 21_340_816
    assert modules["layer1"] == modules["layer1.0"] + modules["layer1.1"] == found.total("layer1")
    assert set(modules) == {path for path, _ in resnet.named_modules()}
    both = found.by_module_and_operator()
    assert both["layer1.0"] == found.by_operator("layer1.0") == {"conv": 876_544, "batch_norm": 802_816}
    assert both["relu"] == {}
    assert found.unsupported_ops()["relu"] == 17


# What fvcore 0.1.5 prints on stderr for these two, in its order.
UNSUPPORTED = {
    "resnet18": {"max_pool2d": 1, "add_": 8},
    "mobilenet_v3_small": {"hardswish_": 19, "hardsigmoid": 9, "mul": 9, "add_": 6, "dropout_": 1},
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_s3_1_operators_without_a_count_are_printed_as_by_the_original(
    name: str, models: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with torch.device("meta"):
        model = getattr(models, name)()
    found = ElemCountAnalysis(model, torch.zeros(IMAGE, device="meta"))
    assert caplog.messages == []
    found.total()
    found.by_module()
    expected = [
        f"Unsupported operator aten::{op} encountered {times} time(s)"
        for op, times in UNSUPPORTED[name].items()
    ]
    assert sorted(caplog.messages) == sorted(expected)
    caplog.clear()
    analyze_model(model, [IMAGE], GTX, "fp32")
    assert sorted(caplog.messages) == sorted(expected)
    caplog.clear()
    quiet = ElemCountAnalysis(model, torch.zeros(IMAGE, device="meta")).unsupported_ops_warnings(False)
    assert quiet.total() == found.total()
    assert caplog.messages == []


def test_s3_2_elements_of_every_operator() -> None:
    image, grid = (1, 4, 6, 6), (1, 3, 3, 2)
    out = 8 * 16
    assert elements(lambda x, w, b: F.conv2d(x, w, b), image, (8, 4, 3, 3), (8,)) == {
        "conv": 144 + 288 + 8 + out
    }
    assert elements(lambda x, w: F.conv2d(x, w), image, (8, 4, 3, 3)) == {"conv": 144 + 288 + out}
    assert elements(F.linear, (2, 5), (3, 5), (3,)) == {"linear": 10 + 15 + 3 + 6}
    assert elements(F.linear, (2, 5), (3, 5)) == {"linear": 10 + 15 + 6}
    assert elements(torch.addmm, (3,), (2, 5), (5, 3)) == {"addmm": 3 + 10 + 15 + 6}
    assert elements(torch.matmul, (7, 2, 5), (5, 3)) == {"matmul": 70 + 15 + 42}
    assert elements(torch.mm, (2, 5), (5, 3)) == {"mm": 10 + 15 + 6}
    assert elements(torch.bmm, (7, 2, 5), (7, 5, 3)) == {"bmm": 70 + 105 + 42}
    assert elements(lambda a, b: torch.einsum("ij,jk->ik", a, b), (2, 5), (5, 3)) == {"einsum": 10 + 15 + 6}
    for function in (nn.BatchNorm2d(4).eval(), nn.GroupNorm(2, 4), nn.LayerNorm((4, 6, 6))):
        assert list(elements(function, image).values()) == [2 * 144]
    assert list(elements(lambda x: F.instance_norm(x), image).values()) == [2 * 144]
    for mode in ("nearest", "bilinear"):
        found = elements(lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode), image)
        assert found == {f"upsample_{mode}2d": 144 + 576}
    assert elements(lambda x: F.adaptive_avg_pool2d(x, 2), image) == {"adaptive_avg_pool2d": 144 + 16}
    sampled = elements(lambda x, g: F.grid_sample(x, g, align_corners=False), image, grid)
    assert sampled == {"grid_sampler": 144 + 18 + 36}


def test_s3_3_precisions(resnet: Any) -> None:
    assert set(PRECISIONS) >= {"fp64", "fp32", "fp16-mixed", "fp16-true", "bf16-mixed", "bf16-true"}
    found = {}
    for precision in PRECISIONS:
        rows = analyze_model(resnet, [IMAGE], "NVIDIA A100-SXM4-80GB", precision).rows
        found[precision] = {row.op: row.precision for row in rows}
        elements = {row.op: row.bytes for row in rows}
        assert elements["linear"] == 514_512 * PRECISIONS[precision][1]
    assert found["fp16-mixed"] == {
        "conv": "fp16",
        "batch_norm": "fp32",
        "adaptive_avg_pool2d": "fp16",
        "linear": "fp16",
    }
    assert found["bf16-mixed"]["batch_norm"] == "fp32"
    assert set(found["bf16-true"].values()) == set(found["bf16"].values()) == {"bf16"}
    assert set(found["fp16-true"].values()) == set(found["fp16"].values()) == {"fp16"}
    assert set(found["fp64"].values()) == {"fp64"}
    with pytest.raises(SizeupError, match="no precision 'int3'"):
        analyze_model(resnet, [IMAGE], GTX, "int3")


def test_s3_4_the_snippet_of_the_text(shared: Path, models: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (snippet,) = (block for block in blocks(text(shared, 3), "") if "analyze_model(" in block)
    ours = snippet.replace("from tensorscope", "from sizeup.compat.tensorscope")
    exec(compile(ours, "snippet", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"Total FLOPs: {512 * 1_819_065_856}"
    assert printed[1] == f"Total elems: {11_679_912 + 512 * 9_660_904}"
    assert [part.strip() for part in printed[2].split("  ") if part] == list(HEADERS)
    assert printed[4].split()[:4] == ["conv1", "conv", "fp32", str(512 * 118_013_952)]
    (estimate,) = (line for line in printed if line.startswith("Estimated forward pass: "))
    assert float(estimate.rpartition(" ")[2]) > 0.3


def test_s3_5_ratio(resnet: Any) -> None:
    rows = analyze_model(resnet, [IMAGE], GTX, "fp32").rows
    assert {row.ratio for row in rows} == {3 / (192 / 1000)} == {15.625}


def test_s3_6_limitation(resnet: Any) -> None:
    rows = {row.module: row for row in analyze_model(resnet, [IMAGE], GTX, "fp32").rows}
    conv, norm = rows["conv1"], rows["bn1"]
    assert conv.intensity == pytest.approx(118_013_952 / (4 * (150_528 + 9_408 + 802_816)))
    assert (conv.limitation, norm.limitation) == ("Arithmetic", "Memory")
    assert all((row.intensity > row.ratio) == (row.limitation == "Arithmetic") for row in rows.values())


def test_s3_7_each_row_at_its_own_precision(resnet: Any) -> None:
    found = analyze_model(resnet, [IMAGE], "Tesla V100-SXM2-16GB", "fp16-mixed")
    peaks = {"fp16": 125e12, "fp32": 15.7e12}
    expected = sum(max(row.flops / peaks[row.precision], row.bytes / 900e9) for row in found.rows)
    assert found.seconds == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", NINE)
def test_s3_8_nine_cards(name: str) -> None:
    found = card(name)
    rates = [found.get(key) for key in ("memory_bandwidth", "fp64", "fp32", "fp16", "bf16")]
    expected = [None if each is None else pytest.approx(each, rel=1e-12) for each in NINE[name]]
    assert rates == expected
    assert set(CARDS) == set(NINE)


def test_s3_8_more_by_a_file_and_clear_errors(
    resnet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TargetError, match=r"Abacus 9000.*gpu_specs\.json"):
        analyze_model(resnet, [IMAGE], "Abacus 9000", "fp32")
    with pytest.raises(TargetError, match="bf16 is not known"):
        analyze_model(resnet, [IMAGE], "Tesla V100-SXM2-16GB", "bf16")
    specs = {"Abacus 9000": {"memory_bandwidth": 192, "fp32": 3}}
    Path("gpu_specs.json").write_text(json.dumps(specs))
    assert analyze_model(resnet, [IMAGE], "Abacus 9000", "fp32").seconds == pytest.approx(
        0.00076926, rel=1e-5
    )
    Path("gpu_specs.json").rename("mine.json")
    found = analyze_model(resnet, [IMAGE], "Abacus 9000", "fp32", gpu_specs="mine.json")
    assert {row.ratio for row in found.rows} == {15.625}
    for content, message in (
        ('{"A": {"fp32": 3}}', "card A: memory_bandwidth in GB/s is missing"),
        ('{"A": {"memory_bandwidth": 0}}', "memory_bandwidth is 0, not within"),
        ('{"A": {"memory_bandwidth": Infinity}}', "memory_bandwidth is inf, not a number"),
        ("[3]", "not a table of graphics cards by name"),
    ):
        Path("mine.json").write_text(content)
        with pytest.raises(TargetError, match=message):
            card("A", "mine.json")
    assert card("RTX 4090")["memory_bandwidth"] == pytest.approx(1008, rel=0.01)


def test_s3_9_resnet18(resnet: Any) -> None:
    found = analyze_model(resnet, [IMAGE], GTX, "fp32")
    assert (found.flops, found.elements, len(found.rows)) == (1_819_065_856, 21_340_816, 42)
    by_operator = Counter[str]()
    for row in found.rows:
        by_operator[row.op] += row.bytes // 4
    assert by_operator == {
        "conv": 15_833_280,
        "batch_norm": 4_967_424,
        "adaptive_avg_pool2d": 25_600,
        "linear": 514_512,
    }
    assert Counter(row.limitation for row in found.rows) == {"Memory": 29, "Arithmetic": 13}
    assert f"{found.seconds:.8f}" == "0.00076926"
    eight = analyze_model(resnet, [(8, *IMAGE[1:])], GTX, "fp32")
    assert (eight.flops, eight.elements) == (14_552_526_848, 88_967_144)
    assert eight.elements == 11_679_912 + 9_660_904 * 8
    assert Counter(row.limitation for row in eight.rows) == {"Memory": 24, "Arithmetic": 18}
    assert f"{eight.seconds:.7f}" == "0.0057211"
    fast = analyze_model(resnet, [IMAGE], "NVIDIA A100-SXM4-80GB", "fp16-true")
    assert f"{fast.seconds:.6e}" == "2.101972e-05"


# As Tensorscope 1.0.1 itself counts them, which also agrees module by module.
ELEMENTS = {
    "mobilenet_v2": 30_337_296,
    "vit_b_16": 123_293_648,
    "swin_t": 69_953_168,
    "densenet121": 61_147_536,
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_s3_9_elements_of_other_networks(name: str, models: Any) -> None:
    with torch.device("meta"):
        model = getattr(models, name)()
    assert ElemCountAnalysis(model, torch.zeros(IMAGE, device="meta")).total == ELEMENTS[name]


@pytest.mark.parametrize(("name", "share"), [("vit_b_16", 166), ("swin_t", 128)])
def test_s3_10_rows_sum_to_the_total(
    name: str, share: int, models: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with torch.device("meta"):
        model = getattr(models, name)()
    found = analyze_model(model, [IMAGE], "Tesla V100-SXM2-16GB", "fp32")
    assert sum(row.flops for row in found.rows) == found.flops
    assert sum(row.bytes for row in found.rows) == 4 * found.elements
    assert f"those of the original made {share} % of it" in capsys.readouterr().out


def test_s3_11_mac_against_flop(resnet: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found = analyze_model(resnet, [IMAGE], GTX, "fp32")
    printed = capsys.readouterr().out
    assert "one for each MAC, while the card's rate counts two" in printed
    assert "1814073344 MACs" in printed
    compute = {row.module: 2 * row.flops / 3e12 for row in found.rows if row.op in ("conv", "linear")}
    by_hand = sum(max(compute.get(row.module, 0.0), row.bytes / 192e9) for row in found.rows)
    assert found.right_seconds == pytest.approx(by_hand, rel=1e-12)
    assert found.right_seconds > 1.7 * found.seconds
    assert "sizeup itself estimates" in printed
