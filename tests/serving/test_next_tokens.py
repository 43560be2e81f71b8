"""Laptops and phones: bytes by hand, published times through `sizeup.llm`, and what is refused."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore] # its types are in a separate package
import numpy as np
import pytest

import sizeup
from cli.running import run_command as run
from sizeup.serving import estimate
from sizeup.serving.rates import next_tokens
from sizeup.targets import device as device_of

_SCHEMA = json.loads((files("sizeup.render.data") / "llm_schema.json").read_text())
# MAPE in percent with families held out, that a laptop may have at most.
BARS = {
    "Intel Core Ultra 5-330": 5,
    "Intel Core Ultra 7-255H": 14,
    "Intel Core Ultra 7-258V": 8,
    "Intel Core Ultra 7-368H": 7,
}
PRECISIONS = {"INT4-MIXED": "int4", "INT8-CW": "int8", "FP16": "fp16"}

SMALL = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 512,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
LLAMA = SMALL | {
    "vocab_size": 128256, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
}  # fmt: skip
# Per layer: q and o 256 x 256, k and v 256 x 128, three matrices 256 x 512; norms are 5 x 256.
MATRICES = 2 * (2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 512)
VOCABULARY = 2 * 1000 * 256
NORMS = 2 * 5 * 256
BY_HAND = {
    "fp16": 2 * MATRICES + 2 * VOCABULARY + NORMS,
    "int8": MATRICES + VOCABULARY + NORMS,
    "int4": MATRICES // 2 + MATRICES // 128 * 2 + VOCABULARY + NORMS,  # a 16-bit scale per 128 weights
}


def written(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(json.dumps(config), "utf-8")
    return path


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
    assert ended.returncode == 0, ended
    assert ("reserves is not known" in " ".join(ended.stdout.split())) == (fits != "no")
    assert ("first token" in ended.stdout) == (fits != "no")
    ended = run("check", str(config), *arguments)
    assert ended.returncode == (1 if fits == "no" else 3), ended


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
        ("core-ultra-7-258v", {"tpot": "30ms"}, "--tpot is not supported .*; sizeup check takes it"),
        ("core-ultra-7-258v", {"price": 1.0}, "--price is not supported"),
        ("core-ultra-7-258v", {"draft": "mtp", "acceptance": 0.5}, "--draft is not supported"),
        ("core-ultra-7-258v", {"disaggregate": "1:1"}, "--disaggregate is not supported"),
        ("2xcore-ultra-7-258v", {}, "runs on one device: use -d core-ultra-7-258v/openvino-gpu"),
        ("core-ultra-7-258v/qnn", {}, "does not run on core-ultra-7-258v; use -d core-ultra-7-258v/openvino"),
        ("core-ultra-7-258v/vllm", {}, "sizeup llm and check take -d core-ultra-7-258v/openvino-gpu"),
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
    for command in ("llm", "check"):
        text = " ".join(run(command, str(config), "-d", target).stdout.split())
        assert ("openvino is openvino-gpu, OpenVINO (built-in GPU)" in text) == is_alias


def test_one_sequence_has_a_context_and_two_have_none(config: Path) -> None:
    # What weights leave of 64 MiB, at 1,024 bytes per token; nothing is known of what the runtime takes.
    serving = sizeup.llm(config, target="core-ultra-7-258v", ram="64MiB", weights="int8")
    most = ((64 << 20) - BY_HAND["int8"]) // (2 * 2 * 2 * 64 * 2)
    assert (serving.max_context(), serving.max_context(2)) == (most, 0)
    text = " ".join(
        run("llm", config, "-d", "core-ultra-7-258v", "--ram", "64MiB", "--weights", "int8").stdout.split()
    )
    assert f"at most {most:,} tokens for one sequence, if the runtime reserved nothing" in text


def test_families_are_those_of_the_device(tmp_path: Path) -> None:
    path = written(tmp_path / "llama.json", LLAMA)
    serving = sizeup.llm(path, target="core-ultra-7-255h", weights="int4", ram="32GiB", input=512)
    families = serving.to_dict()["times"]["calibration"]["families"]
    assert len(families) == 12
    assert "neox" not in families
    ended = run("llm", path, "-d", "core-ultra-7-255h", "--weights", "int4", "--ram", "32GiB")
    assert "265 measurements of 12 families" in " ".join(ended.stdout.split())


@pytest.mark.parametrize(
    ("changes", "target", "weights", "reason"),
    [
        (
            {},
            "snapdragon-8-elite",
            None,
            "weights in bf16 are not among the measurements; give --weights int4",
        ),
        ({}, "core-ultra-7-258v", "fp8", "weights in fp8 are not"),
        (
            {"torch_dtype": "float32"},
            "core-ultra-7-258v",
            None,
            "weights in fp32 are not among the measurements; give --weights int4, int8 or fp16",
        ),
        ({}, "core-ultra-9-288v", "int4", "no language model was measured on core-ultra-9-288v"),
        (
            {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
            "core-ultra-7-258v",
            "int4",
            "mixtures of experts are not",
        ),
    ],
)
def test_times_of_what_was_not_measured_are_not_known(
    tmp_path: Path, changes: dict[str, Any], target: str, weights: str | None, reason: str
) -> None:
    path = written(tmp_path / "config.json", SMALL | changes)
    serving = sizeup.llm(path, target=target, weights=weights, ram="16GiB")
    assert serving.times() is None
    assert serving.no_times.startswith(reason)
    arguments = ("-d", target, "--ram", "16GiB", "--tpot", "30ms")
    ended = run("check", str(path), *arguments, *(() if weights is None else ("--weights", weights)))
    assert ended.returncode == 3, ended
    assert reason in " ".join(ended.stdout.split())


# Measured are prompts of 32 to 1,025 tokens on the laptop, contexts of up to 4,096 on the phone, and models
# of 0.2 to 8.2 GiB and of 0.7 to 4.0 GiB per token.
@pytest.mark.parametrize(
    ("target", "options", "caveat"),
    [
        ("core-ultra-7-258v", {"input": 32, "output": 128}, ""),
        ("core-ultra-7-258v", {"input": 1024, "output": 512}, ""),
        ("core-ultra-7-258v", {"input": 31}, "no interval: prompts of less than 32 tokens are not"),
        ("core-ultra-7-258v", {"input": 1026}, "no interval: prompts of more than 1,025 tokens are not"),
        (
            "core-ultra-7-258v",
            {"input": 1024, "output": 4096},
            "no interval for next tokens: contexts of more than 1,025 tokens are not among the measurements",
        ),
        (
            "core-ultra-7-258v",
            {"input": 512, "kv": "int8"},
            "no interval for next tokens: caches in int8 are",
        ),
        (
            "core-ultra-7-258v",
            {"input": 512, "weights": "fp16"},
            "more than 8.18 GiB of weights per token are",
        ),
        ("snapdragon-8-elite-gen-5/qnn", {"input": 1, "output": 4095}, ""),
        ("snapdragon-8-elite-gen-5/qnn", {"input": 4096, "output": 1}, "contexts of more than 4,096 tokens"),
        ("snapdragon-x2-elite/qnn", {"input": 512}, "3 families of models, not 4"),
    ],
)
def test_what_exceeds_the_measurements_has_no_interval(
    tmp_path: Path, target: str, options: dict[str, Any], caveat: str
) -> None:
    path = written(tmp_path / "llama.json", LLAMA)
    times = sizeup.llm(path, target=target, ram="32GiB", **{"weights": "int4", **options}).times()
    assert times is not None
    (point,) = times.points
    assert caveat in "; ".join(times.caveats)
    assert (point.tpot.low is None) == bool(caveat)
    assert (point.ttft.low is None) == (bool(caveat) and "next tokens" not in times.caveats[0])


# Published rows and the user's path.


def benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("scipy", reason="the regression needs scipy")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module(name)


@pytest.mark.parametrize("laptop", BARS)
def test_published_next_tokens_are_within_the_bar(
    laptop: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are predicted by rates that were fitted without their family; `sizeup.llm` predicts the same."""
    tokens = benchmark("serving_tokens", monkeypatch)
    models = tokens.ON_LAPTOPS
    rows = _published(shared, laptop, models)
    table = tokens.laptops()
    table = table.part(table.device == laptop)
    times = tokens.held_out(table)
    name, shipped = device_of(laptop).name, next_tokens()["openvino-gpu"]
    assert len(rows) == len(times) == shipped.counts[name]
    mape = np.mean(np.abs(times / np.array([float(row[3]) / 1e3 for row in rows]) - 1))
    assert 100 * mape <= BARS[laptop]
    assert mape == pytest.approx(shipped.mape[name][0], abs=0.001)
    sizes = [row[2] for row in rows]
    rates = shipped.tokens[name]
    assert (rates.least_tokens, rates.most_tokens) == (min(sizes), max(sizes))
    for kin in sorted(set(table.kin)):
        numbers = dict(zip(table.names, tokens.fitted(table.part(table.kin != kin)), strict=True))
        rates = replace(shipped.tokens[name], next=numbers)
        changed = {"openvino-gpu": replace(shipped, tokens={name: rates})}
        monkeypatch.setattr(estimate, "next_tokens", lambda changed=changed: changed)
        row = int(np.flatnonzero(table.kin == kin)[-1])
        topology, precision, size, _ = rows[row]
        config = importlib.import_module("serving_models").config_of(models[topology])
        served = sizeup.llm(
            written(tmp_path / "config.json", config),
            target=f"{name}/openvino-gpu", input=size, output=1, weights=precision, ram="64GiB",
        ).times()  # fmt: skip
        assert served is not None
        assert served.points[0].tpot.seconds == pytest.approx(times[row], rel=1e-6)


def _published(shared: Path, laptop: str, models: Mapping[str, Any]) -> list[tuple[str, str, int, str]]:
    """Model, precision, tokens of the prompt and milliseconds of the rows of a laptop."""
    with (shared / "truth" / "openvino_llm.csv").open(newline="", encoding="utf-8") as file:
        return [
            (row["Topology"], PRECISIONS[row["Precision"]], int(row["Input Size"]), row["2nd latency (ms)"])
            for row in csv.DictReader(file)
            if row["device"] == laptop and row["Topology"] in models and row["Input Size"].isdigit()
            and row["Precision"] in PRECISIONS and row["2nd latency (ms)"]
        ]  # fmt: skip


@pytest.mark.parametrize("is_first", [False, True])
def test_shipped_numbers_and_intervals_are_those_of_the_tables(
    is_first: bool, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = benchmark("serving_tokens", monkeypatch)
    for source in tokens.SOURCES:
        table = source.tokens(is_first=is_first)
        ratios = table.truth / tokens.held_out(table)
        for device in dict.fromkeys(table.device):
            here, rates = table.device == device, next_tokens()[source.engine].tokens[device_of(device).name]
            fit = dict(zip(table.names, tokens.fitted(table.part(here)), strict=True))
            numbers = {name: value for names, value in fit.items() for name in names.split()}
            shipped, errors = (rates.first, rates.ttft) if is_first else (rates.next, rates.tpot)
            assert shipped == pytest.approx(numbers, rel=1e-3)
            assert np.mean(np.abs(1 / ratios[here] - 1)) == pytest.approx(errors.mape, abs=0.001)
            assert (errors.low is None) == (len(set(table.kin[here])) < 4)
            if errors.low is not None and errors.high is not None:
                held = (ratios[here] >= errors.low) & (ratios[here] <= errors.high)
                assert held.mean() >= 0.9


# qai_hub_models/models/llama_v3_1_8b_instruct/perf.yaml of https://github.com/qualcomm/ai-hub-models, commit
# b61a009: tokens per second at a context of 4,096, and seconds of the first 128 and of 4,096 tokens.
AI_HUB = {
    "snapdragon-8-elite": (14.14, 0.142777, 4.568864),
    "snapdragon-x2-elite": (21.0, 0.129952, 4.158464),
}


@pytest.mark.parametrize("phone", AI_HUB)
def test_published_times_of_a_phone_are_near(tmp_path: Path, phone: str) -> None:
    path = written(tmp_path / "llama.json", LLAMA)
    speed, step, whole = AI_HUB[phone]
    for input, first in ((128, step), (4095, whole)):
        serving = sizeup.llm(
            path, target=f"{phone}/qnn", input=input, output=4096 - input, weights="int4", ram="16GiB"
        )
        times = serving.times()
        assert times is not None
        (point,) = times.points
        assert point.user_tokens_per_second == pytest.approx(speed, rel=0.25)
        assert point.ttft.seconds == pytest.approx(first, rel=0.25)


def test_the_largest_model_on_a_phone_is_counted_by_hand() -> None:
    """Llama 3.1 8B: 4 bits in groups of 128 with 16-bit scales, and a head of 8 bits."""
    layers = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    rates = next_tokens()["qnn"].tokens["snapdragon-8-elite-gen-5"]
    assert rates.most_bytes == layers // 2 + layers // 128 * 2 + 128256 * 4096
