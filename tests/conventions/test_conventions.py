"""Other tools' numbers, as the tools themselves gave them (fvcore 0.1.5.post20221221, thop
0.1.1.post2209072238, ptflops 0.7.5, torchinfo 1.8.0, with torch 2.13.0 and torchvision 0.28.0), against
our conventions on the same networks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore]
import pytest

import sizeup
from sizeup.conventions import CONVENTIONS, convention
from sizeup.errors import SizeupError
from sizeup.render.console.report import _convention_lines

torch = pytest.importorskip("torch", reason="the other tools read PyTorch models")

from sizeup.formats.torch.zoo import import_torchvision  # noqa: E402 - needs torch

pytestmark = pytest.mark.extras

nn, F = torch.nn, torch.nn.functional
TOOLS = ("fvcore", "thop", "ptflops", "ptflops-aten", "torchinfo")
# In the order of TOOLS, at 1x3x224x224 and in evaluation mode.
NETWORKS = {
    "resnet18": (1_819_065_856, 1_824_033_792, 1_825_313_768, 1_814_074_344, 1_814_083_944),
    "mobilenet_v2": (314_193_216, 327_486_720, 320_300_008, 300_775_272, 300_809_384),
    "vit_b_16": (16_867_412_736, 11_286_254_592, 17_606_030_584, 16_864_992_232, 173_232_616),
    "densenet121": (2_865_546_752, 2_897_007_104, 2_899_843_048, 2_834_162_664, 2_834_246_312),
    "efficientnet_b0": (401_659_392, 415_145_024, 410_196_896, 385_825_092, 385_867_108),
    "swin_t": (4_509_232_128, 2_978_099_712, 3_128_183_416, 4_503_738_856, 34_368_232),
    "shufflenet_v2_x1_0": (148_808_392, 152_708_792, 152_387_568, 144_908_992, 144_925_172),
    "convnext_tiny": (4_470_437_376, 4_464_149_760, 4_488_347_368, 4_468_966_888, 322_371_592),
    "mobilenet_v3_small": (59_649_536, 62_477_944, 60_910_032, 56_515_312, 56_527_424),
    "squeezenet1_0": (819_093_576, 819_094_576, 836_821_960, 823_270_824, 823_270_824),
    "alexnet": (714_197_696, 714_206_912, 716_441_128, 714_682_664, 714_682_664),
}
IMAGE = (4, 8, 8)
# A layer, its input without the batch, and the tools' numbers: ptflops took a batch of 1, the others of 2.
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...], tuple[int, ...]]] = {
    "conv transpose": (
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2),
        IMAGE,
        (13824, 62424, 8646, 8646, 65892),
    ),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1), (4, 10), (1440, 1440, 780, 780, 1560)),
    "conv3d": (lambda: nn.Conv3d(4, 6, 3), (4, 6, 6, 6), (82944, 82944, 41856, 41856, 83712)),
    "circular padding": (
        lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"),
        IMAGE,
        (27648, 27648, 14208, 14208, 28416),
    ),
    "group norm": (lambda: nn.GroupNorm(2, 4), IMAGE, (2560, 0, 512, 0, 16)),
    "instance norm": (lambda: nn.InstanceNorm2d(4), IMAGE, (2048, 1024, 256, 0, 0)),
    "instance norm with a weight": (
        lambda: nn.InstanceNorm2d(4, affine=True),
        IMAGE,
        (2560, 2048, 512, 0, 16),
    ),
    "layer norm": (lambda: nn.LayerNorm(8), IMAGE, (2560, 2048, 256, 0, 32)),
    "layer norm without a weight": (
        lambda: nn.LayerNorm(8, elementwise_affine=False),
        IMAGE,
        (2048, 1024, 256, 0, 0),
    ),
    "batch norm without a weight": (lambda: nn.BatchNorm2d(4, affine=False), IMAGE, (512, 1024, 256, 0, 0)),
    "batch norm 1d": (lambda: nn.BatchNorm1d(4), (4,), (16, 32, 8, 0, 16)),
    "prelu": (lambda: nn.PReLU(), IMAGE, (0, 512, 512, 0, 2)),
    "leaky relu": (lambda: nn.LeakyReLU(), IMAGE, (0, 0, 256, 0, 0)),
    "elu": (lambda: nn.ELU(), IMAGE, (0, 0, 512, 0, 0)),
    "gelu": (lambda: nn.GELU(), IMAGE, (0, 0, 512, 0, 0)),
    "silu": (lambda: nn.SiLU(), IMAGE, (0, 0, 256, 0, 0)),
    "hardswish": (lambda: nn.Hardswish(), IMAGE, (0, 0, 0, 0, 0)),
    "softmax": (lambda: nn.Softmax(-1), (4, 8), (0, 184, 32, 0, 0)),
    "average pool": (lambda: nn.AvgPool2d(2), IMAGE, (0, 128, 512, 0, 0)),
    "max pool": (lambda: nn.MaxPool2d(2), IMAGE, (0, 0, 512, 0, 0)),
    "adaptive max pool": (lambda: nn.AdaptiveMaxPool2d(2), IMAGE, (0, 0, 512, 0, 0)),
    "adaptive average 1d": (lambda: nn.AdaptiveAvgPool1d(2), (4, 8), (0, 80, 64, 0, 0)),
    "adaptive average 2d": (lambda: nn.AdaptiveAvgPool2d(2), IMAGE, (512, 544, 512, 0, 0)),
    "nearest": (lambda: nn.Upsample(scale_factor=2), IMAGE, (2048, 2048, 2048, 0, 0)),
    "bilinear": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE, (8192, 22528, 2048, 0, 0)),
    "linear on three dimensions": (lambda: nn.Linear(8, 5), (4, 8), (320, 320, 180, 180, 90)),
    "linear without a bias": (lambda: nn.Linear(8, 5, bias=False), (8,), (80, 80, 40, 40, 80)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_count_as_in_the_tools_to_the_last_digit(name: str) -> None:
    if import_torchvision() is None:
        pytest.skip("torchvision is not installed")
    cost = sizeup.count(f"torchvision:{name}")
    assert tuple(CONVENTIONS[tool].counted(cost).total for tool in TOOLS) == NETWORKS[name]


@pytest.mark.parametrize("name", LAYERS)
def test_layers_count_as_in_the_tools(name: str) -> None:
    make, shape, expected = LAYERS[name]
    model = nn.Sequential(make()).eval()
    counts = []
    for tool in TOOLS:
        batch = 1 if tool.startswith("ptflops") else 2
        counts.append(CONVENTIONS[tool].counted(sizeup.count(model, ((batch, *shape),))).total)
    assert tuple(counts) == expected


class Functional(torch.nn.Module):  # type: ignore[name-defined,misc]  # torch may not be there
    """One layer, then a function on its output."""

    def __init__(self, layer: Any, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.layer = layer
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(self.layer, x)


FUNCTIONS: dict[str, tuple[Any, Callable[[Any, Any], Any], tuple[int, ...], tuple[int, ...]]] = {
    "relu": (nn.Conv2d(4, 4, 1), lambda c, x: F.relu(c(x)), IMAGE, (2048, 2048, 1536, 1280, 2560)),
    "softmax": (nn.Conv2d(4, 4, 1), lambda c, x: F.softmax(c(x), -1), IMAGE, (2048, 2048, 1536, 1280, 2560)),
    "matmul": (
        nn.Conv2d(4, 4, 1),
        lambda c, x: torch.matmul(c(x), x.transpose(-1, -2)),
        IMAGE,
        (6144, 2048, 3328, 3328, 2560),
    ),
    "interpolate": (
        nn.Conv2d(4, 4, 1),
        lambda c, x: F.interpolate(c(x), scale_factor=2, mode="bilinear"),
        IMAGE,
        (10240, 2048, 2304, 1280, 2560),
    ),
    "attention layer": (
        nn.MultiheadAttention(8, 2, batch_first=True),
        lambda c, x: c(x, x, x, need_weights=False)[0],
        (5, 8),
        (2560, 0, 1930, 1440, 0),
    ),
    "attention": (
        nn.Linear(8, 8),
        lambda c, x: F.scaled_dot_product_attention(c(x), x, x),
        (2, 5, 8),
        (1280, 1280, 720, 720, 144),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_seen_by_those_that_see_them(name: str) -> None:
    layer, function, shape, expected = FUNCTIONS[name]
    model = nn.Sequential(Functional(layer, function)).eval()
    counts = []
    for tool in TOOLS:
        batch = 1 if tool.startswith("ptflops") else 2
        counts.append(CONVENTIONS[tool].counted(sizeup.count(model, ((batch, *shape),))).total)
    assert tuple(counts) == expected


def test_an_encoder_layer_in_one_op_is_counted_or_not_reproduced() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    cost = sizeup.count(layer, ((1, 5, 16),))
    assert [op.kind for op in cost.graph.ops] == ["attention_layer"]
    assert CONVENTIONS["fvcore"].counted(cost).total == 11_040  # as fvcore counts
    assert CONVENTIONS["ptflops-aten"].counted(cost).total == 10_800  # as ptflops counts
    assert [CONVENTIONS[tool].counted(cost).not_reproduced for tool in TOOLS] == [0, 1, 1, 0, 1]


def test_what_is_not_reproduced_is_not_zero() -> None:
    model = nn.Sequential(nn.LSTM(8, 8))
    counts = CONVENTIONS["thop"].counted(sizeup.count(model, ((5, 2, 8),)))
    assert counts.not_reproduced == 1
    report = sizeup.analyze(model, ((5, 2, 8),), convention="thop")
    assert "not reproduced" in repr(report) + str(sizeup.explain(report, "lstm"))


def test_a_report_shows_the_other_total_beside_ours() -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU()).eval()
    plain = sizeup.analyze(model, ((1, *IMAGE),))
    report = sizeup.analyze(model, ((1, *IMAGE),), convention="dnn_analyzer")
    assert plain.convention is None
    assert "convention" not in plain.to_dict()
    assert report.totals == plain.totals
    data = report.to_dict()["convention"]
    assert (data["name"], data["total"], data["not_reproduced_ops"]) == ("dnn-analyzer", 1024 + 512 + 256, 0)
    assert data["minus_macs_by_op_kind"] == {"batch_norm": 512, "relu": 256}
    schema = json.loads((files("sizeup.render.data") / "schema.json").read_text())
    jsonschema.validate(report.to_dict(), schema)


def test_the_list_of_op_kinds_states_that_it_is_a_difference() -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU()).eval()
    counts = sizeup.analyze(model, ((1, *IMAGE),), convention="dnn_analyzer").convention
    assert counts is not None
    assert _convention_lines(counts)[1] == ("", "difference to the MACs: batch_norm +512, relu +256")


def test_an_explanation_says_why_the_other_number_differs() -> None:
    model = nn.Sequential(nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)).eval()
    text = str(sizeup.explain(model, "0", inputs=((1, *IMAGE),), convention="dnn-analyzer"))
    assert "DNN analyzer: 1,152 MACs." in " ".join(text.split())
    assert "divided by the strides" in " ".join(text.split())
    report = sizeup.analyze(model, ((1, *IMAGE),))
    text = str(sizeup.explain(report, "1", convention="torchinfo"))
    assert "torchinfo 1.8.0: 16 mult-adds. Weight and bias once per sample" in " ".join(text.split())


def test_names_are_forgiving_and_errors_helpful() -> None:
    assert convention("DNN_Analyzer") is CONVENTIONS["dnn-analyzer"]
    with pytest.raises(SizeupError, match=r"'thup'; nearest: thop.*; known: fvcore, "):
        convention("thup")
    with pytest.raises(SizeupError, match="unknown convention 'unheard-of'"):
        sizeup.analyze("no-such-file.onnx", convention="unheard-of")


def test_files_are_counted_as_the_layers_that_they_were() -> None:
    """A graph without modules: every operator is one that a layer would have run."""
    model = nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU()).eval()
    graph = sizeup.load(model, ((1, *IMAGE),))
    ops = tuple(replace(op, scope="") for op in graph.ops)
    file = replace(graph, ops=ops, format="onnx")
    product = sizeup.load(Functional(nn.Identity(), lambda _, x: x @ x), ((1, *IMAGE),))
    for tool, expected in zip(TOOLS, (2048, 0, 2048, 2048, 0), strict=True):
        counts = CONVENTIONS[tool].counted(sizeup.count(replace(product, format="onnx"))).total
        assert (tool, counts) == (tool, expected)
    for tool in TOOLS:
        there = CONVENTIONS[tool].counted(sizeup.count(file)).total
        assert there == CONVENTIONS[tool].counted(sizeup.count(graph)).total > 0
