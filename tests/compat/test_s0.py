"""The tensor memory filter and the latency predictor: what they did, with numbers from running them."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import old_texts
import sizeup
from conftest import ROOT
from sizeup.compat import networks, tensor_latency_predictor, tensor_memory_filter
from sizeup.formats.torch import network
from sizeup.latency.coefficients import layer_of
from sizeup.mixed_precision import sizes

BITS = {"fp32": 32, "fp16": 16, "int8": 8, "int4": 4, "int2": 2}
ALL = list(BITS)
COEFFICIENTS = {
    "Conv": dict(zip(ALL, (100, 50, 28, 17.4, 11), strict=True)),
    "DWConv": dict(zip(ALL, (200, 100, 46, 27, 16.8), strict=True)),
    "Linear": dict(zip(ALL, (50, 25, 14, 8.7, 5.5), strict=True)),
}


class Ran(NamedTuple):
    """What a command wrote and said."""

    json: Any
    out: str
    err: str


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    monkeypatch.chdir(tmp_path)

    def ran(main: Callable[[list[str]], int], words: str, file: str) -> Ran:
        assert main(["--model_type", *words.split()]) == 0
        said = capsys.readouterr()
        return Ran(json.loads((tmp_path / file).read_text("utf-8")), said.out, said.err)

    return ran


@pytest.fixture
def filtered(run: Callable[..., Ran]) -> Callable[[str], Ran]:
    return lambda words: run(tensor_memory_filter.main, words, "tensor_analysis_results.json")


@pytest.fixture
def predicted(run: Callable[..., Ran]) -> Callable[[str], Ran]:
    return lambda words: run(tensor_latency_predictor.main, words, "latency_analysis_results.json")


def kept(ran: Ran) -> Counter[tuple[str, ...]]:
    return Counter(map(tuple, ran.json["filtered_precisions"].values()))


def macs(ran: Ran) -> int:
    return sum(each["mmacs"] for each in ran.json["layer_details"].values())


def test_s0_1_filter_flags(filtered: Callable[[str], Ran], tmp_path: Path) -> None:
    usual = filtered("mobilenetv2").json
    assert (usual["model_type"], usual["input_shape"]) == ("mobilenetv2", [1, 3, 84, 84])
    assert usual["memory_threshold_kb"] == 512
    elsewhere = "mobilenetv2 --batch_size 2 --input_size 96 --memory_threshold 64KB --output_file other.json"
    filtered(elsewhere)
    other = json.loads((tmp_path / "other.json").read_text("utf-8"))
    assert (other["input_shape"], other["memory_threshold_kb"]) == ([2, 3, 96, 96], 64)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--model_type resnet",
        "--model_type mobilenetv2 --batch_size 0",
        "--model_type mobilenetv2 --memory_threshold 5 bananas",
    ],
)
def test_s0_1_wrong_flags_are_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        tensor_memory_filter.main(words.split())
    assert "error:" in capsys.readouterr().err


def test_s0_2_size_of_a_tensor() -> None:
    arguments = networks.parser("", width=1.0, input_size=84, output_file="").parse_args(
        ["--model_type", "mobilenetv2"]
    )
    # Beside it a layer of odd tensors (147 and 125 numbers), which do not fill their last byte when small.
    graphs = (networks.load(arguments), sizeup.load(torch.nn.Conv2d(3, 5, 3), ((1, 3, 7, 7),)))
    found = [(graph, each) for graph in graphs for each in sizes(graph, 0)]
    assert len(found) == 54
    for graph, each in found:
        op = graph.ops[each.layer.op]
        for tensor, taken in ((op.inputs[0], each.read_bytes), (op.outputs[0], each.written_bytes)):
            elements = math.prod(graph.tensors[tensor].shape or ())
            assert taken == tuple(math.ceil(elements * bits / 8) for bits in BITS.values())
    assert found[-1][1].read_bytes == (588, 294, 147, 74, 37)


def test_s0_3_the_larger_of_input_and_output_decides(filtered: Callable[[str], Ran]) -> None:
    # 1x3x84x84 enters the first convolution (84,672 B), 1x32x42x42 leaves it (225,792 B).
    fits = filtered("mobilenetv2 --memory_threshold 225792").json["filtered_precisions"]
    assert fits["features.0.0"] == ALL
    misses = filtered("mobilenetv2 --memory_threshold 225791").json["filtered_precisions"]
    assert misses["features.0.0"] == ALL[1:]
    # 1,280 numbers enter the classifier: the 512,000 B of its weights do not count.
    assert filtered("mobilenetv2 --memory_threshold 5KB").json["filtered_precisions"]["classifier.1"] == ALL


def test_s0_4_console_of_the_filter(filtered: Callable[[str], Ran]) -> None:
    out = filtered("mobilenetv2 --input_size 224 --memory_threshold 64KB").out
    first = out[out.index("\nfeatures.0.0\n") : out.index("\nfeatures.1.conv.0.0\n")]
    assert "1x3x224x224" in first
    assert "1x32x112x112" in first
    assert [f"{name} " in first for name in ALL] == [True] * 5
    assert "fp32 1568.00 KB (over)" in first
    assert "WARNING no number type fits 64.00 KB" in first
    last = out[out.index("\nclassifier.1\n") :]
    assert "options fp32, fp16, int8, int4, int2" in last
    assert out.count("WARNING") == 11


def test_s0_5_json_of_the_filter(filtered: Callable[[str], Ran]) -> None:
    found = filtered("mobilenetv2").json
    assert list(found) == ["model_type", "input_shape", "memory_threshold_kb", "filtered_precisions"]
    assert found["filtered_precisions"]["features.18.0"] == ALL


def test_s0_6_the_unit_is_explicit(filtered: Callable[[str], Ran]) -> None:
    in_bytes = filtered("mobilenetv2 --memory_threshold 524288")
    in_kilobytes = filtered("mobilenetv2 --memory_threshold 512 KB")
    assert in_bytes.json == in_kilobytes.json
    assert in_bytes.json["memory_threshold_kb"] == 512
    assert "at 512.00 KB 51 layers keep all types" in in_bytes.out
    assert "The original took 524288 for KB, at which 53 keep all" in in_bytes.out
    assert "original" not in in_kilobytes.out
    original = filtered("mobilenetv2 --memory_threshold 524288 --as_original")
    assert kept(original) == {tuple(ALL): 53}
    assert original.json["memory_threshold_kb"] == 524288
    assert "at 512.00 KB 51 layers keep all types" in original.out


def test_s0_7_mobilenet_v2_layers(filtered: Callable[[str], Ran]) -> None:
    small = filtered("mobilenetv2 --input_size 84 --memory_threshold 512KB")
    assert kept(small) == {tuple(ALL): 51, tuple(ALL[1:]): 2}
    assert re.search(r"input +1x3x84x84 +fp32 82\.69 KB", small.out)
    assert re.search(r"output +1x32x42x42 +fp32 220\.50 KB", small.out)
    large = filtered("mobilenetv2 --input_size 224 --memory_threshold 512KB")
    assert kept(large) == {tuple(ALL): 34, tuple(ALL[1:]): 8, tuple(ALL[2:]): 9, ("int2",): 2}
    tight = filtered("mobilenetv2 --input_size 224 --memory_threshold 64KB")
    assert kept(tight)[()] == 11
    assert [sum(kept(each).values()) for each in (small, large, tight)] == [53, 53, 53]


def test_s0_8_predictor_flags(predicted: Callable[[str], Ran], tmp_path: Path) -> None:
    assert predicted("mobilenetv2").json["input_shape"] == [1, 3, 112, 112]
    # Without a flag the small MobileNetV3 and EfficientNet b0.
    assert predicted("mobilenetv3").json == predicted("mobilenetv3 --mode small").json
    mapping = tmp_path / "mapping.json"
    mapping.write_text('{"classifier.1": "int8"}', "utf-8")
    words = (
        f"mobilenetv2 --batch_size 2 --input_size 64 --precision_mapping_file {mapping} --output_file o.json"
    )
    predicted(words)
    other = json.loads((tmp_path / "o.json").read_text("utf-8"))
    assert other["input_shape"] == [2, 3, 64, 64]
    assert other["layer_details"]["classifier.1"]["precision"] == "int8"
    for wrong in ("mobilenetv3 --mode middle", "efficientnet --model_version b8", "resnet"):
        with pytest.raises(SystemExit, match="2"):
            tensor_latency_predictor.main(["--model_type", *wrong.split()])


def test_s0_9_precision_mapping(
    predicted: Callable[[str], Ran], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mapping = {"features.0.0": "int4", "features.1.conv.1": "float7", "features.99.conv": "int8"}
    file = tmp_path / "mapping.json"
    file.write_text(json.dumps(mapping), "utf-8")
    ran = predicted(f"mobilenetv2 --precision_mapping_file {file}")
    assert ran.json["precision_mapping"] == mapping
    details = ran.json["layer_details"]
    assert details["features.0.0"]["precision"] == "int4"
    assert details["features.1.conv.1"]["precision"] == "fp32"
    # The first convolution takes 27 x 16 x 56 x 56 MACs at 17.4 instead of 100 ms for two million.
    cheaper = 1328.8768 - 27 * 16 * 56 * 56 / 2e6 * (100 - 17.4)
    assert ran.json["total_latency"]["latency_ms"] == pytest.approx(cheaper, abs=5e-5)
    warnings = ran.err.splitlines()
    assert len(warnings) == 2
    assert "features.1.conv.1: unknown precision 'float7', fp32 instead" in warnings[0]
    assert "no layer is called 'features.99.conv'" in warnings[1]
    file.write_text("[1]", "utf-8")
    words = ["--model_type", "mobilenetv2", "--precision_mapping_file", str(file)]
    assert tensor_latency_predictor.main(words) == 2
    assert "a precision map is a JSON object" in capsys.readouterr().err


@pytest.mark.parametrize("precision", ALL)
def test_s0_10_coefficients(predicted: Callable[[str], Ran], tmp_path: Path, precision: str) -> None:
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"*": precision}), "utf-8")
    found = predicted(f"mobilenetv2 --precision_mapping_file {file}").json["layer_details"]
    assert {each["layer_type"] for each in found.values()} == set(COEFFICIENTS)
    for each in found.values():
        wanted = COEFFICIENTS[each["layer_type"]][precision]
        assert each["latency_ms"] / (each["mmacs"] / 2e6) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "content"),
    [("own.json", '{"DWConv": {"fp32": 1}}'), ("own.toml", "depthwise = {fp32 = 1}")],
)
def test_s0_10_a_file_replaces_coefficients(
    predicted: Callable[[str], Ran], tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    found = predicted(f"mobilenetv2 --input_size 224 --coefficients_file {tmp_path / name}").json
    # 10,358,208 MACs at 1 instead of 200 ms for two million.
    saved = 10_358_208 / 2e6 * 199
    assert found["total_latency"]["latency_ms"] == pytest.approx(4910.0992 - saved, abs=5e-5)


def test_s0_11_depthwise_means_groups_equal_both_channels(predicted: Callable[[str], Ran]) -> None:
    found = predicted("mobilenetv2").json["layer_details"]
    module = network("mobilenet_v2", classes=100, width=0.5, divisor=1)
    convolutions = {name: each for name, each in module.named_modules() if isinstance(each, torch.nn.Conv2d)}
    assert len(convolutions) == 52
    for name, conv in convolutions.items():
        is_depthwise = conv.groups == conv.in_channels == conv.out_channels
        assert found[name]["layer_type"] == ("DWConv" if is_depthwise else "Conv")
    # Two filters a channel, or groups of two channels, are no depthwise convolution.
    for groups, leaving in ((4, 8), (2, 4)):
        graph = sizeup.load(torch.nn.Conv2d(4, leaving, 3, groups=groups), inputs=((1, 4, 8, 8),))
        assert layer_of(graph, graph.ops[0]) == "conv"


def test_s0_12_latency_formula(predicted: Callable[[str], Ran]) -> None:
    for each in predicted("mobilenetv2").json["layer_details"].values():
        milliseconds = each["mmacs"] / 2e6 * COEFFICIENTS[each["layer_type"]]["fp32"]
        assert each["latency_ms"] == pytest.approx(milliseconds, rel=1e-12)
        assert each["latency_ns"] == pytest.approx(1e6 * milliseconds, rel=1e-12)


def test_s0_13_json_of_the_predictor(predicted: Callable[[str], Ran], tmp_path: Path) -> None:
    file = tmp_path / "mapping.json"
    file.write_text('{"classifier.1": "int8"}', "utf-8")
    found = predicted(f"mobilenetv2 --precision_mapping_file {file}").json
    keys = ["input_shape", "precision_mapping", "total_latency", "precision_stats", "layer_details"]
    assert list(found) == keys
    assert list(found["total_latency"]) == ["latency_ns", "latency_ms"]
    assert {name: each["count"] for name, each in found["precision_stats"].items()} == {"fp32": 52, "int8": 1}
    assert list(found["precision_stats"]["int8"]) == ["count", "latency_ns", "latency_ms"]
    assert found["precision_stats"]["int8"]["latency_ms"] == pytest.approx(128_000 / 2e6 * 14)
    total = sum(each["latency_ns"] for each in found["precision_stats"].values())
    assert found["total_latency"]["latency_ns"] == pytest.approx(total)
    assert found["layer_details"]["features.0.0"] == {
        "layer_type": "Conv",
        "input_shape": [1, 3, 112, 112],
        "output_shape": [1, 16, 56, 56],
        "mmacs": 27 * 16 * 56 * 56,
        "precision": "fp32",
        "latency_ns": pytest.approx(67_737_600),
        "latency_ms": pytest.approx(67.7376),
    }


def test_s0_14_console_of_the_predictor(predicted: Callable[[str], Ran], tmp_path: Path) -> None:
    file = tmp_path / "mapping.json"
    file.write_text('{"classifier.1": "int8"}', "utf-8")
    out = predicted(f"mobilenetv2 --input_size 224 --precision_mapping_file {file}").out
    row = next(line.split() for line in out.splitlines() if line.startswith("features.0.0 "))
    assert row == ["features.0.0", "Conv", "1x3x224x224", "1x16x112x112", "5.4190", "fp32", "270.9504"]
    assert "total MMACs    87.9078 (87,907,776 MACs" in out
    assert "total latency  4907.7952 ms (4907795200 ns)" in out  # 3.2 ms of the classifier become 0.896
    distribution = out[out.index("precision distribution") :]
    assert re.search(r"fp32 +52 layers +4906\.8992 ms", distribution)
    assert re.search(r"int8 +1 layers +0\.8960 ms", distribution)


def test_s0_15_the_predictor_announces_the_width(predicted: Callable[[str], Ran]) -> None:
    first = predicted("mobilenetv2").out.splitlines()[0]
    assert first == "mobilenetv2 (width 0.5, 100 classes) at 1x3x112x112"
    assert predicted("mobilenetv3").out.startswith("mobilenetv3 (100 classes) at ")


def test_s0_15_mobilenet_v2_of_half_width(predicted: Callable[[str], Ran]) -> None:
    large = predicted("mobilenetv2 --input_size 224")
    by_type: Counter[str] = Counter()
    for each in large.json["layer_details"].values():
        by_type[each["layer_type"]] += each["mmacs"]
    assert by_type == {"Conv": 77_421_568, "DWConv": 10_358_208, "Linear": 128_000}
    assert macs(large) == 87_907_776
    assert large.json["total_latency"]["latency_ms"] == pytest.approx(4910.0992, abs=5e-5)
    small = predicted("mobilenetv2 --input_size 112")
    assert macs(small) == 23_993_664
    assert small.json["total_latency"]["latency_ms"] == pytest.approx(1328.8768, abs=5e-5)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("mobilenetv3 --mode small", "mobilenet_v3_small"),
        ("mobilenetv3 --mode large", "mobilenet_v3_large"),
        ("efficientnet", "efficientnet_b0"),
        ("efficientnet --model_version b4", "efficientnet_b4"),
    ],
)
def test_s0_16_other_networks_run(predicted: Callable[[str], Ran], words: str, name: str) -> None:
    ran = predicted(words)
    with FlopCounterMode(display=False) as counter:
        network(name, classes=100)(torch.empty(1, 3, 112, 112, device="meta"))
    assert macs(ran) == counter.get_total_flops() // 2
    assert ran.json["total_latency"]["latency_ms"] > 0


def test_s0_17_a_batch_scales_convolutions_too(predicted: Callable[[str], Ran]) -> None:
    words = "mobilenetv2 --input_size 224 --batch_size 2"
    right = predicted(words)
    assert right.json["total_latency"]["latency_ms"] == pytest.approx(2 * 4910.0992, abs=5e-5)
    assert "the original, which scaled only Linear layers, gave 4913.2992 ms" in right.out
    original = predicted(f"{words} --as_original")
    assert original.json["total_latency"]["latency_ms"] == pytest.approx(4913.2992, abs=5e-5)
    assert "for the whole batch 9820.1984 ms" in original.out
    assert original.json["convention"] == "as the original: a larger batch scales only Linear layers"
    alone = predicted("mobilenetv2 --input_size 224 --as_original").json["total_latency"]
    assert alone["latency_ms"] == pytest.approx(4910.0992, abs=5e-5)


def test_s0_networks_are_the_same_without_torchvision(
    filtered: Callable[[str], Ran], predicted: Callable[[str], Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("mobilenetv2 --input_size 224", "mobilenetv3 --mode small", "efficientnet")
    with_it = [filtered(words[0]).json, *(predicted(each).json for each in words)]
    monkeypatch.setattr("sizeup.formats.torch.networks.import_torchvision", lambda: None)
    assert [filtered(words[0]).json, *(predicted(each).json for each in words)] == with_it


@pytest.mark.parametrize("main", [tensor_memory_filter.main, tensor_latency_predictor.main])
def test_s0_a_file_that_cannot_be_written_is_one_line(
    main: Callable[[list[str]], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--model_type", "mobilenetv2", "--output_file", str(tmp_path / "nowhere" / "found.json")]
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "found.json: cannot be written" in line


# What `python -m` does with each command, in one process: most of a command's time is the import of torch.
DRIVER = """
import json, runpy, sys
for words in json.loads(sys.argv.pop()):
    sys.argv = words
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        assert not end.code, words
"""


def test_s0_commands_of_the_text_run(shared: Path, tmp_path: Path) -> None:
    content = old_texts.text(shared, 0)
    (mapping,) = old_texts.blocks(content, "json")
    (tmp_path / "example_precision_mapping.json").write_text(mapping, "utf-8")
    commands = old_texts.commands(content)
    assert [words[:2] for words in commands] == [
        ["python", "tensor_memory_filter.py"],
        ["python", "tensor_latency_predictor.py"],
        ["python", "tensor_latency_predictor.py"],
    ]
    ours = [[f"sizeup.compat.{Path(words[1]).stem}", *words[2:]] for words in commands]
    command = [sys.executable, "-c", DRIVER, json.dumps(ours)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        "example_precision_mapping.json",
        "tensor_analysis_results.json",
        "latency_analysis_results.json",
    }
    assert "total latency  4910.0992 ms" in done.stdout
    # The example's first line is no layer and no precision, and both are said.
    assert "no layer is called 'layer_name'" in done.stderr
    assert "unknown precision 'precision'" in done.stderr
    written = json.loads((tmp_path / "latency_analysis_results.json").read_text("utf-8"))
    stats = {name: each["count"] for name, each in written["precision_stats"].items()}
    assert stats == {"fp32": 51, "fp16": 1, "int8": 1}


@pytest.mark.parametrize("title", ["Tensor memory filter", "Tensor latency predictor"])
def test_snippets_of_our_page_run(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = old_texts.section((ROOT / "docs" / "coming-from.md").read_text("utf-8"), title)
    (snippet,) = old_texts.blocks(page, "python")
    exec(compile(snippet, title, "exec"), {"__name__": title})
