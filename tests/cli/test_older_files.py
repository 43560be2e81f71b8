"""Files of older tools given to the verbs, as their users type it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cli.running import Run
from sizeup import targets

pytestmark = pytest.mark.extras

CARDS = {
    "Abacus 9000": {"memory_bandwidth": 192, "fp32": 3, "fp16": 6.5},
    "NVIDIA A100-SXM4-80GB": {"memory_bandwidth": 2039, "fp32": 156, "fp16": 312},
}
A100_FP32 = 19.5e12 / 2  # MACs per second of the data sheet; the file's figure is that of TF32


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: layers of 100 x 1000 (a, b) and 1000 x 10 (a2, b2), and no settings."""
    from rewrite.test_branches import branches  # it needs LiteRT, and this file is read without

    (tmp_path / "net.tflite").write_bytes(branches())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.delenv("SIZEUP_TARGETS", raising=False)
    return tmp_path


def analyzed(run: Run, *words: str) -> Any:
    ended = run("analyze", "net.tflite", "--json", *words)
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


def refused(run: Run, *words: str) -> str:
    ended = run(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("sizeup: ")
    assert ended.err.count("\n") == 1
    return ended.err


def write(name: str, content: Any) -> None:
    Path(name).write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def notes(report: Any) -> str:
    return " ".join(report["notes"])


def test_mapping_of_the_predictor_is_a_precision_map(run: Run, folder: Path) -> None:
    # The first line is the placeholder of the predictor's own documentation.
    write("map.json", {"layer_name": "precision", "a": "INT4", "b": "int8"})
    message = notes(analyzed(run, "--precision", "map.json"))
    assert "1 at int4" in message
    assert "match nothing: 'layer_name'" in message


def test_results_of_the_predictor_are_a_precision_map(run: Run, folder: Path) -> None:
    details = {"a": {"layer_type": "Linear", "precision": "int4"}, "b": {"precision": "int4"}}
    write("results.json", {"precision_mapping": {}, "layer_details": details})
    assert "2 at int4" in notes(analyzed(run, "--precision", "results.json"))


def test_results_of_the_memory_filter_are_refused_with_a_map_to_paste(run: Run, folder: Path) -> None:
    write("results.json", {"filtered_precisions": {"a": [], "b": ["fp16", "int8"]}})
    message = refused(run, "analyze", "net.tflite", "--precision", "results.json")
    assert 'one per layer, such as {"b": "fp16"}' in message
    assert "sizeup precision MODEL --weights SIZE -o map.json" in message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": "int9"}', "'a': unknown precision 'int9'; known: fp64"),
        ('{"layer_details": {"a": {"precision": 8}}}', "a precision map is a JSON object of strings"),
        ('{"layer_details": {"a": 8}}', "a precision map is a JSON object of strings"),
        ('{"filtered_precisions": 3}', "it lists all precisions that fit"),
        ("[" * 100_000, "not a precision map"),
        ('"' + "x" * (16 << 20) + '"', "map.json: not a precision map: larger than 16 MiB"),
    ],
    ids=["precision", "number", "no table", "filter", "deep", "large"],
)
def test_hostile_precision_maps_end_in_one_line(run: Run, folder: Path, content: str, message: str) -> None:
    write("map.json", content)
    assert message in refused(run, "analyze", "net.tflite", "--precision", "map.json")


@pytest.mark.parametrize("row", ["Linear", "linear"])
def test_table_of_the_predictor_gives_the_latency(run: Run, folder: Path, row: str) -> None:
    write("table.json", {"Conv": {"int8": 1000}, "DWConv": {"int8": 1000}, row: {"INT8": 2}})
    latency = analyzed(run, "--coefficients", "table.json")["latency"]
    # 2 x 100,000 and 2 x 10,000 MACs at 2 ms for two million.
    assert latency["ms"] == pytest.approx(0.22)


def test_cards_of_gpu_specs_are_devices(run: Run, folder: Path) -> None:
    write("gpu_specs.json", CARDS)
    (card, known) = json.loads(run("devices", "gpu_specs.json", "--json").out)["devices"]
    assert (card["title"], card["device_class"], card["runtimes"]) == ("Abacus 9000", "gpu", ["torch-eager"])
    assert card["units"][0]["macs_per_second"] == {"fp32": 1.5e12, "fp16": 3.25e12}
    assert card["memories"][0]["bytes_per_second"] == 192e9
    assert known["name"] == "a100-80gb-sxm"
    assert known["units"][0]["macs_per_second"]["fp32"] == A100_FP32
    assert "SIZEUP_TARGETS" not in os.environ


@pytest.mark.parametrize("name", ["gpu_specs.json:Abacus 9000", "gpu_specs.json:abacus-9000/torch-eager"])
def test_a_card_of_a_file_is_a_target(run: Run, folder: Path, name: str) -> None:
    write("gpu_specs.json", CARDS)
    latency = analyzed(run, "-d", name, "--precision", "fp16")["latency"]
    assert latency["target"] == "abacus-9000/torch-eager"
    assert latency["basis"] == "roofline"
    assert "SIZEUP_TARGETS" not in os.environ


def test_a_file_of_one_device_needs_no_name(run: Run, folder: Path) -> None:
    write("one.json", {"Abacus 9000": CARDS["Abacus 9000"]})
    for device in ("one.json", "one.json/torch-eager"):
        assert analyzed(run, "-d", device, "--precision", "fp16")["latency"]["target"].startswith("abacus")
    write("gpu_specs.json", CARDS)
    message = refused(run, "analyze", "net.tflite", "-d", "gpu_specs.json")
    assert "contains abacus-9000, nvidia-a100-sxm4-80gb; name one: -d 'gpu_specs.json:NAME'" in message
    assert "no such device file" in refused(run, "check", "net.tflite", "-d", "none.toml")


@pytest.mark.parametrize("where", ["settings/sizeup/targets/gpu_specs.json", "mine.json"])
def test_cards_are_found_in_the_usual_places(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    Path(where).parent.mkdir(parents=True, exist_ok=True)
    write(where, CARDS)
    if where == "mine.json":
        monkeypatch.setenv("SIZEUP_TARGETS", where)
    assert "1.50 TMAC/s" in run("devices", "Abacus 9000").out
    assert "9.75 TMAC/s" in run("devices", "NVIDIA A100-SXM4-80GB").out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", 'not a table of graphics cards by name: {"NAME": {"memory_bandwidth": GB/s,'),
        ('{"A": 3}', "not a table of graphics cards by name"),
        ('{"A": {"memory_bandwidth": NaN, "fp32": 1}}', "bandwidth: 'NaN GB/s' is not a bandwidth"),
        ('{"A": {"memory_bandwidth": true, "fp32": 1}}', "bandwidth: 'True GB/s' is not a bandwidth"),
        ('{"A": {"memory_bandwidth": [[]], "fp32": 1}}', "bandwidth: '[[]] GB/s' is not a bandwidth"),
        ('{"A": {"memory_bandwidth": 1e99, "fp32": 1}}', "is out of range for a bandwidth"),
        ('{"A": {"memory_bandwidth": 1, "fp32": -1}}', "fp32: '-1 TFLOPS' is not a rate"),
        ('{"A": {"memory_bandwidth": 1, "fp32": ' + "9" * 4000 + "}}", "999... is out of range for a rate"),
        ('{"A 1": {"memory_bandwidth": 1, "fp32": 1}, "a-1": {"memory_bandwidth": 2, "fp32": 1}}', "'a1'"),
        ("{" * 100_000, "not a JSON file of graphics cards"),
        ('"' + "x" * (16 << 20) + '"', "larger than 16 MiB"),
    ],
    ids=range(11),
)
def test_hostile_gpu_specs_end_in_one_line(run: Run, folder: Path, content: str, message: str) -> None:
    write("cards.json", content)
    assert message in refused(run, "analyze", "net.tflite", "-d", "cards.json:A")


def test_other_entries_and_keys_of_gpu_specs_do_no_harm(run: Run, folder: Path) -> None:
    cards = {**CARDS, "TEMPLATE": {"memory_bandwidth": "GB/s", "fp32": None}, "B": {"year": 1999}}
    write("gpu_specs.json", cards)
    latency = analyzed(run, "-d", "gpu_specs.json:Abacus 9000", "--precision", "fp16")["latency"]
    assert latency["ms"] > 0
    unknown = analyzed(run, "-d", "gpu_specs.json:B", "--precision", "fp16")["latency"]
    assert "neither its arithmetic rates nor its memory bandwidth is known" in unknown["unavailable"]


def test_an_unknown_device_is_added_as_its_error_says(run: Run, folder: Path) -> None:
    message = refused(run, "analyze", "net.tflite", "-d", "Abacus 9000")
    command = "sizeup devices 'Abacus 9000' --template > abacus-9000.toml"
    assert f"{command}, fill it in, and use -d abacus-9000.toml" in message
    template = run("devices", "Abacus 9000", "--template").out
    write("abacus-9000.toml", template)
    assert "'?'" in refused(run, "analyze", "net.tflite", "-d", "abacus-9000.toml")
    filled = template.replace('kind = "?"', 'kind = "gpu"').replace('["?"]', '["torch-eager"]')
    filled = filled.replace('source = "?"', 'source = "derived: counted"').replace("? ", "3 ")
    write("abacus-9000.toml", filled)
    targets.clear_cache()  # as the next command does
    latency = analyzed(run, "-d", "abacus-9000.toml", "--precision", "fp32")["latency"]
    assert latency["target"] == "abacus-9000/torch-eager"


def test_a_size_may_be_in_kb_or_kib(run: Run, folder: Path) -> None:
    outputs = [run("precision", "net.tflite", "--fits", size) for size in ("512KB", "512000", "512KiB")]
    assert [each.code for each in outputs] == [0, 0, 0]
    assert outputs[0].out == outputs[1].out
