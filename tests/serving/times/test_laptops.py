"""Laptops and phones as targets: bytes by hand, verdicts, and what is refused."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore] # its types are in a separate package
import pytest

import sizeup
from cli.running import run_command as run
from serving.laptops import BY_HAND, LLAMA, SMALL, written

_SCHEMA = json.loads((files("sizeup.serving.render") / "llm_schema.json").read_text())


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return written(tmp_path / "config.json", SMALL)


@pytest.mark.parametrize("precision", BY_HAND)
def test_weights_and_cache_are_those_of_a_count_by_hand(config: Path, precision: str) -> None:
    target = "core-ultra-7-258v/openvino"
    serving = sizeup.llm(config, target=target, input=100, output=28, weights=precision)
    assert serving.memory.weights_bytes == BY_HAND[precision]
    # 2 layers, keys and values of 2 heads of 64, 2 bytes, 128 tokens
    assert serving.sequence_bytes == 2 * 2 * 2 * 64 * 2 * 128
    assert serving.cluster.memory_bytes == 32 << 30


def test_a_cache_on_a_phone_has_8_bits(config: Path) -> None:
    serving = sizeup.llm(config, target="snapdragon-8-elite/qnn", input=100, output=28, ram="12GiB")
    assert (serving.kv, serving.sequence_bytes) == ("int8", 2 * 2 * 2 * 64 * 128)


@pytest.mark.parametrize(
    ("ram", "fits"), [("64GiB", "undetermined"), (f"{BY_HAND['int4']}B", "no"), ("1MiB", "no")]
)
def test_no_laptop_is_a_plain_yes(config: Path, ram: str, fits: str) -> None:
    serving = sizeup.llm(config, target="core-ultra-7-255h", weights="int4", ram=ram)
    assert serving.fits == fits
    arguments = ("-d", "core-ultra-7-255h", "--weights", "int4", "--ram", ram)
    ended = run("llm", str(config), *arguments)
    assert ended.returncode == (1 if fits == "no" else 3), ended
    assert ("reserves is not known" in " ".join(ended.stdout.split())) == (fits != "no")
    assert ("first token" in ended.stdout) == (fits != "no")


def test_the_smallest_memory_that_is_not_refused_is_the_sum(config: Path) -> None:
    needed = BY_HAND["int4"] + 2 * 2 * 2 * 64 * 2 * 128
    for ram, fits in ((needed, "undetermined"), (needed - 1, "no")):
        serving = sizeup.llm(
            config, target="core-ultra-7-258v", weights="int4", input=100, output=28, ram=ram
        )
        assert serving.fits == fits


def test_json_and_page_state_what_is_not_known(config: Path, tmp_path: Path) -> None:
    serving = sizeup.llm(config, target="core-ultra-7-258v/openvino-gpu", weights="int8", input=1024)
    content = json.loads(json.dumps(serving.to_dict()))
    jsonschema.validate(content, _SCHEMA)
    assert content["target"]["engine"] == "openvino-gpu"
    assert content["fits"] == "undetermined"
    assert content["max_sequences"] == {"low": 0, "expected": 1, "high": 1}
    assert content["gpus"] == []
    assert content["local_memory"] == {
        "ram_bytes": 32 << 30,
        "weights_bytes": BY_HAND["int8"],
        "tower_bytes": 0,
        "cache_bytes": 2 * 2 * 2 * 64 * 2 * (1024 + 512),
        "reserved_bytes": None,
    }
    (point,) = content["times"]["points"]
    assert point["tpot_seconds"]["low"] is None
    assert "less than 209 MiB of weights per token" in content["times"]["caveats"][0]
    assert point["cost"]["joules_per_million_tokens"] is None
    serving.save(tmp_path / "page.html")
    assert "reserves is not known" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("core-ultra-7-258v", {"concurrency": 2}, "--concurrency is not supported on core-ultra-7-258v"),
        ("core-ultra-7-258v", {"layout": "tp1"}, "--layout is not supported"),
        ("core-ultra-7-258v", {"rate": 1.0}, "--rate is not supported"),
        ("core-ultra-7-258v", {"price": 1.0}, "--price is not supported"),
        ("core-ultra-7-258v", {"draft": "mtp", "acceptance": 0.5}, "--draft is not supported"),
        ("core-ultra-7-258v", {"disaggregate": "1:1"}, "--disaggregate is not supported"),
        ("2xcore-ultra-7-258v", {}, "runs on one device: use -d core-ultra-7-258v/openvino-gpu"),
        ("core-ultra-7-258v/qnn", {}, "does not run on core-ultra-7-258v; use -d core-ultra-7-258v/openvino"),
        ("core-ultra-7-258v/vllm", {}, "sizeup llm takes -d core-ultra-7-258v/openvino-gpu"),
        ("core-ultra-7-255h", {}, "depends on the computer or phone; give it, e.g. --ram 16GiB"),
        ("core-ultra-7-255h", {"ram": 0}, "--ram: give the memory of the device, from 1MiB to 1024TiB"),
        ("core-ultra-7-255h", {"ram": 16}, "--ram: give the memory of the device, from 1MiB to 1024TiB"),
        ("core-ultra-7-255h", {"ram": True}, "--ram: give the memory of the device"),
        ("core-ultra-7-255h", {"ram": 1e300}, "--ram: give the memory of the device"),
        ("core-ultra-7-255h", {"ram": "16"}, "--ram 16: give a unit, e.g. 16GiB"),
        ("core-ultra-7-255h", {"ram": "much"}, "--ram much: not a size; use e.g. 16GiB"),
        ("core-ultra-7-258v/openvino-npu", {}, "unknown; use openvino-gpu on core-ultra-7-258v"),
        (None, {}, "target is None; give a text such as 8xh100/vllm"),
        ("i9-10940x", {}, "is a cpu; what vLLM reserves is known for GPUs alone"),
        ("h100/vllm", {"ram": "16GiB"}, "--ram is the memory of a laptop or phone"),
    ],
)
def test_what_is_not_supported_is_refused(
    config: Path, target: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(sizeup.SizeupError, match=message):
        sizeup.llm(config, target=target, **options)


@pytest.mark.parametrize("model", [None, 5])
def test_what_is_no_path_of_a_model_is_refused(model: Any) -> None:
    with pytest.raises(sizeup.SizeupError, match="give the path of a config"):
        sizeup.llm(model, target="core-ultra-7-258v")


@pytest.mark.parametrize(
    ("runtime", "is_alias"), [("/openvino", True), ("/OpenVINO", True), ("/openvino-gpu", False), ("", False)]
)
def test_a_name_that_elsewhere_means_the_cpu_is_explained(config: Path, runtime: str, is_alias: bool) -> None:
    target = f"core-ultra-7-258v{runtime}"
    assert sizeup.llm(config, target=target).engine.name == "openvino-gpu"
    for options in ((), ("--markdown",)):
        text = " ".join(run("llm", str(config), "-d", target, *options).stdout.split())
        assert ("openvino is openvino-gpu, OpenVINO (built-in GPU)" in text) == is_alias


def test_one_sequence_has_a_context_and_two_have_none(config: Path) -> None:
    # What weights leave of 64 MiB, at 1,024 bytes per token; nothing is known of what the runtime takes.
    serving = sizeup.llm(config, target="core-ultra-7-258v", ram="64MiB", weights="int8")
    most = ((64 << 20) - BY_HAND["int8"]) // (2 * 2 * 2 * 64 * 2)
    assert (serving.max_context(), serving.max_context(2)) == (most, 0)
    target = "core-ultra-7-258v/openvino-gpu, tp1"
    assert repr(serving) == f"<{serving.name} on {target}: undetermined; sequences of 4,608 tokens>"
    text = " ".join(
        run("llm", config, "-d", "core-ultra-7-258v", "--ram", "64MiB", "--weights", "int8").stdout.split()
    )
    assert f"at most {most:,} tokens for one sequence, if the runtime reserved nothing" in text


CACHE = 2 * 2 * 2 * 64 * 2 * 128  # bytes of 128 tokens


@pytest.mark.parametrize(
    ("ram", "options"),
    [
        (BY_HAND["fp16"] + CACHE, []),
        (BY_HAND["fp16"] + CACHE - 1, ["--weights int8", "--weights int4"]),
        (BY_HAND["int8"] + CACHE, ["--weights int8", "--weights int4"]),
        (BY_HAND["int8"] + CACHE - 1, ["--weights int4"]),
        (BY_HAND["int4"] + CACHE - 1, []),
    ],
)
def test_what_may_fit_is_stated(config: Path, tmp_path: Path, ram: int, options: list[str]) -> None:
    serving = sizeup.llm(config, target="core-ultra-7-258v", ram=ram, input=100, output=28)
    assert list(serving.remedies) == options
    ended = run("llm", config, "-d", "core-ultra-7-258v", "--ram", f"{ram}B", "--in", "100", "--out", "28")
    shown = [line.split(maxsplit=2)[2] for line in ended.stdout.splitlines() if line.startswith("  may fit")]
    assert shown == options
    serving.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert [f"<p>May fit: {option}</p>" in page for option in options] == [True] * len(options)


def test_families_are_those_of_the_device(tmp_path: Path) -> None:
    path = written(tmp_path / "llama.json", LLAMA)
    serving = sizeup.llm(path, target="core-ultra-7-255h", weights="int4", ram="32GiB", input=512)
    families = serving.to_dict()["times"]["calibration"]["families"]
    assert len(families) == 12
    assert "neox" not in families
    ended = run("llm", path, "-d", "core-ultra-7-255h", "--weights", "int4", "--ram", "32GiB")
    assert "265 measurements of 12 families" in " ".join(ended.stdout.split())
