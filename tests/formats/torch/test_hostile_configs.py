"""Hostile Hugging Face configurations run no code, open no connection and end in an error soon.

One process reads them all under an audit hook (tests/watched_configs.py), after a benign configuration of
each family, so that only what a file causes is seen.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sizeup
from fuzzing.hf_configs import mutate, seeds
from sizeup.errors import LoadError
from sizeup.formats.torch import configuration
from sizeup.formats.torch.zoo import offline
from timing import slowdown

TESTS = Path(__file__).parents[2]
MUTANTS = 60
SEED = 20

DEEP = 100_000
TEXT_SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
LANGUAGE = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 64,
    **TEXT_SIZES,
    "num_key_value_heads": 4,
}
# Content of a file, and the expected error; "a result" if the setting is dropped.
HOSTILE: dict[str, tuple[Any, str]] = {
    "deep lists": (f'{{"model_type": "bert", "a": {"[" * DEEP}{"]" * DEEP}}}', "CorruptModel: .*nested"),
    "deep objects": ('{"model_type":"bert","a":' * DEEP + "1" + "}" * DEEP, "CorruptModel: .*nested"),
    "40 deep": (
        f'{{"model_type": "bert", "a": {"[" * 40}{"]" * 40}}}',
        "CorruptModel: .*more than 32 levels",
    ),
    "a huge file": (" " * (16 << 20) + "{}", "CorruptModel: .*larger than 16 MiB"),
    "many digits": (f'{{"model_type": "bert", "hidden_size": {"9" * 5000}}}', "CorruptModel: .*not JSON"),
    "half a surrogate": ({"model_type": "bert", "hidden_act": "\ud800"}, "CorruptModel: .*not valid Unicode"),
    "no map of attributes": (
        {"model_type": "segformer", "attribute_map": ["__class__"]},
        "LoadError: ",
    ),
    "architectures of numbers": ({"model_type": "bert", "architectures": [5]}, "CorruptModel: .*class names"),
    "architectures is text": ({"model_type": "bert", "architectures": "os"}, "CorruptModel: .*class names"),
    "another family's class": (
        {"model_type": "bert", "architectures": ["ViTModel"]},
        "LoadError: .*no class ViTModel",
    ),
    "a class that does not exist": ({"model_type": "voxtral_realtime_text"}, "LoadError: .*architectures"),
    "a tokenizer": (
        {"model_type": "bert", "architectures": ["BertTokenizer"]},
        "LoadError: .*no class BertTokenizer",
    ),
    "a module": (
        {"model_type": "bert", "architectures": ["modeling_bert"]},
        "LoadError: .*no class modeling_bert",
    ),
    "no dtype": ({"model_type": "bert", "torch_dtype": "__class__"}, "CorruptModel: .*not a PyTorch dtype"),
    "a lazy module as dtype": (
        {"model_type": "bert", "dtype": "onnx"},
        "CorruptModel: .*not a PyTorch dtype",
    ),
    "a dtype of routers": (
        {"model_type": "nllb-moe", "router_dtype": "load"},
        "CorruptModel: .*not a PyTorch dtype",
    ),
    "a class": ({"model_type": "bert", "__class__": "int"}, "CorruptModel: .*not the name of a setting"),
    "a kernel": (
        {"model_type": "bert", "attn_implementation": "kernels-community/flash-attn"},
        "LoadError: .*may load code; use eager or sdpa",
    ),
    "a kernel of a part": (
        {"model_type": "clip", "text_config": {"_attn_implementation": "org/name@main:f"}},
        "LoadError: .*may load code",
    ),
    "kernels by part": (
        {"model_type": "clip", "attn_implementation": {"vision_config": "org/name"}},
        "LoadError: .*may load code",
    ),
    "experts": (
        {"model_type": "mixtral", "experts_implementation": "sonicmoe"},
        "LoadError: .*or grouped_mm",
    ),
    "a backbone on the Hub": (
        {"model_type": "detr", "use_timm_backbone": False, "backbone": "microsoft/resnet-50"},
        "LoadError: .*not a timm model name",
    ),
    "timm from the Hub": (
        {"model_type": "timm_wrapper", "architecture": "hf-hub:org/name"},
        "LoadError: .*not a timm model name",
    ),
    "timm from a folder": (
        {"model_type": "detr", "backbone_config": {"model_type": "timm_backbone", "backbone": "local-dir:/"}},
        "LoadError: .*not a timm model name",
    ),
    "weights of timm": (
        {
            "model_type": "timm_wrapper",
            "architecture": "resnet18",
            "model_args": {"checkpoint_path": "/etc/hosts"},
        },
        "a result",
    ),
    "a pretrained backbone": (
        {
            "model_type": "detr",
            "backbone": "resnet18",
            "use_pretrained_backbone": True,
            "backbone_kwargs": {"in_chans": 3, "pretrained": True},
            "encoder_layers": 1,
            "decoder_layers": 1,
        },
        "a result",
    ),
    "code from the Hub": (
        {
            "model_type": "bert",
            **TEXT_SIZES,
            "auto_map": {"AutoModel": "org/name--a.B"},
            "_name_or_path": "/etc",
        },
        "a result",
    ),
    "a quantizer": (
        {
            "model_type": "bert",
            **TEXT_SIZES,
            "quantization_config": {"quant_method": "gptq", "dataset": "/etc"},
        },
        "a result",
    ),
    "layers without end": (
        {"model_type": "llama", "num_hidden_layers": 10**7},
        "CorruptModel: .*at most 20,000",
    ),
    "depths without end": ({"model_type": "swin", "depths": [10**9]}, "CorruptModel: .*at most 20,000"),
    "layers in a list": (
        {"model_type": "gpt_neo", "attention_types": [[["global"], 10**9]]},
        "CorruptModel: .*at most 20,000",
    ),
    "heads without end": (
        {"model_type": "bark", "fine_acoustics_config": {"n_codes_total": 10**9}},
        "CorruptModel: .*at most 20,000",
    ),
    "groups without end": (
        {"model_type": "albert", "inner_group_num": 10**9},
        "CorruptModel: .*at most 20,000",
    ),
    "labels without end": ({"model_type": "vit", "num_labels": 10**9}, "CorruptModel: .*at most 1,000,000"),
    "too wide": (
        {"model_type": "llama", "hidden_size": 10**12},
        "LoadError: .*a tensor is too large for the memory",
    ),
    "wider": ({"model_type": "llama", "hidden_size": 10**13}, "CorruptModel: .*out of range"),
    "a large image": (
        {"model_type": "vit", "image_size": 10**6},
        "CorruptModel: .*invalid shape .* for input pixel_values",
    ),
    "an image that is text": ({"model_type": "swin", "image_size": "large"}, "CorruptModel: .*image_size"),
    "a negative size": ({"model_type": "bert", "hidden_size": -64}, "CorruptModel: .*cannot be negative"),
    "no layers": ({"model_type": "bert", "num_hidden_layers": -1}, "CorruptModel: .*cannot be negative"),
    "half a layer": (
        {"model_type": "bert", "num_hidden_layers": 1.5},
        "CorruptModel: .*expected int, got float",
    ),
    "not a number": ('{"model_type": "bert", "hidden_size": NaN}', "CorruptModel: .*expected int, got float"),
    "a truth": ({"model_type": "bert", "num_hidden_layers": True}, "CorruptModel: .*is true, not a number"),
    "a list": ({"model_type": "bert", "hidden_size": [64]}, "CorruptModel: .*expected int, got list"),
    "nothing": ({"model_type": "bert", "hidden_size": None}, "CorruptModel: .*hidden_size"),
    "quantization as text": ({**LANGUAGE, "quantization_config": "fp8"}, "CorruptModel: .*not an object"),
    "a block of no size": (
        {**LANGUAGE, "quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 0]}},
        "CorruptModel: .*weight_block_size .* not a size",
    ),
    "negative bits": (
        {**LANGUAGE, "quantization_config": {"quant_method": "gptq", "bits": -4}},
        "CorruptModel: .*bits .* not between 2 and 8",
    ),
    "exponential patterns": (
        {
            **LANGUAGE,
            "quantization_config": {
                "quant_method": "compressed-tensors",
                "config_groups": {"a": {"weights": {"num_bits": 8}, "targets": ["re:(a|a)*(.*.*)*$"]}},
                "ignore": ["re:(.*)*(.*)*x$", "re:((((.*)+)+)+)+$y", "*a*" * 300, *(["re:(.+)+z"] * 5_000)],
            },
        },
        "a result",
    ),
    "many patterns": (
        {
            **LANGUAGE,
            "quantization_config": {"quant_method": "fp8", "ignore": [f"*.{i}.*x" for i in range(90_000)]},
        },
        "a result",
    ),
    "a method of many letters": (
        {**LANGUAGE, "quantization_config": {"quant_method": "a\n\x1b[31m" * 100_000}},
        "a result",
    ),
    "deep quantization": (
        {
            **LANGUAGE,
            "quantization_config": {"quant_method": "hqq", "quant_config": {"weight_quant_params": []}},
        },
        "a result",
    ),
}


class Process:
    """A process that reads configurations and reports the outcome of each."""

    def __init__(self) -> None:
        seconds = str(4 * slowdown())
        command = [sys.executable, "-W", "ignore", str(TESTS / "watched_configs.py"), seconds]
        path = os.pathsep.join([str(TESTS), *sys.path])
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def judge(self, content: Any, *, warm_up: bool = False) -> dict[str, Any]:
        """Return the outcome for one file, the finding if there is one, and the CPU seconds."""
        text = content if isinstance(content, str) else json.dumps(content)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"text": text, "warm_up": warm_up}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the process ended with {self._process.wait()}"
        verdict: dict[str, Any] = json.loads(line)
        return verdict

    def end(self) -> None:
        """Close its input, which terminates it."""
        self._process.communicate()


@pytest.fixture(scope="module")
def families() -> list[dict[str, Any]]:
    return seeds()


@pytest.fixture(scope="module")
def process(families: list[dict[str, Any]]) -> Iterator[Process]:
    """A process that has read a benign configuration of every family."""
    process = Process()
    try:
        for each in families:
            assert process.judge(each, warm_up=True)["outcome"] == "a result"
        yield process
    finally:
        process.end()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_configuration_ends_in_an_error_and_causes_nothing_else(
    process: Process, name: str
) -> None:
    content, outcome = HOSTILE[name]
    verdict = process.judge(content)
    assert not verdict["finding"]
    assert re.match(outcome, verdict["outcome"]), verdict["outcome"]


def test_code_next_to_a_configuration_is_not_run(process: Process, tmp_path: Path) -> None:
    # AutoModel has no class for this vision_config, so transformers would run the one in auto_map.
    (tmp_path / "local.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    code = {"auto_map": {"AutoModel": "local.Net"}, "name_or_path": str(tmp_path), "trust_remote_code": True}
    content = {"model_type": "vision-text-dual-encoder", "text_config": {"model_type": "bert"}}
    process.judge({**content, "vision_config": {"model_type": "align_vision_model"}}, warm_up=True)
    verdict = process.judge({**content, "vision_config": {"model_type": "align_vision_model", **code}})
    assert not verdict["finding"]
    assert verdict["outcome"].startswith("LoadError")
    assert not (tmp_path / "ran").exists()


def test_mutants_are_no_findings(process: Process, families: list[dict[str, Any]]) -> None:
    for index in range(MUTANTS):
        mutant = mutate(families[index % len(families)], random.Random(f"{SEED}:{index}"))
        verdict = process.judge(mutant)
        assert not verdict["finding"], (index, mutant)


def test_modules_are_limited_where_names_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sizeup.formats.torch.construction.MOST_PARTS", 300)
    with pytest.raises(LoadError, match="more than 300 modules and parameters"):
        sizeup.load(written(tmp_path, {"model_type": "bert", **TEXT_SIZES, "num_hidden_layers": 20}))


def test_operators_are_limited_where_layers_are_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sizeup.formats.torch.huggingface._MOST_OPS", 300)
    source = written(tmp_path, {"model_type": "albert", **TEXT_SIZES, "num_hidden_layers": 200})
    with pytest.raises(LoadError, match="runs more than 300 operators"):
        sizeup.load(source)


@pytest.mark.parametrize(
    "content",
    [
        {"model_type": "llama", **TEXT_SIZES, "num_hidden_layers": 20_000},  # exceeded while building
        {"model_type": "albert", **TEXT_SIZES, "num_hidden_layers": 9_999},  # one shared layer
        # A loop over the sequence, in each layer.
        {"model_type": "mamba", "hidden_size": 32, "num_hidden_layers": 500, "state_size": 4},
        {"model_type": "xlstm", "hidden_size": 32, "num_hidden_layers": 1_000, "num_heads": 4},
    ],
    ids=lambda content: content["model_type"],
)
def test_cpu_time_is_limited_while_a_model_is_built_and_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: dict[str, Any]
) -> None:
    monkeypatch.setenv("SIZEUP_HF_SECONDS", "0.2")
    source = written(tmp_path, content)
    expected = r"config\.json: building the model takes more than 0\.2 s of CPU time; .*SIZEUP_HF_SECONDS=4 "
    with pytest.raises(LoadError, match=expected):
        sizeup.load(source)


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_time_limit_has_to_be_a_number_of_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("SIZEUP_HF_SECONDS", text)
    with pytest.raises(LoadError, match=f"SIZEUP_HF_SECONDS is '{text}'; set it to a positive number"):
        sizeup.load(written(tmp_path, {"model_type": "bert", **TEXT_SIZES}))


def test_fused_attention_of_another_package_is_pytorch_s_own(tmp_path: Path) -> None:
    plain, fused = (
        sizeup.count(written(tmp_path, {"model_type": "bert", **TEXT_SIZES, **settings})).total_macs
        for settings in ({}, {"attn_implementation": "flash_attention_2"})
    )
    assert plain == fused


def test_numbers_that_are_not_finite_are_read_as_transformers_writes_them(tmp_path: Path) -> None:
    limits = {"time_step_limit": [0.0, {"__float__": "Infinity"}]}
    source = written(tmp_path, {"model_type": "mamba2", **limits})
    assert configuration.read(Path(source.removeprefix("hf:")))[0]["time_step_limit"] == [0.0, float("inf")]


def test_a_table_of_labels_may_have_any_keys(tmp_path: Path) -> None:
    source = written(tmp_path, {"model_type": "vit", "label2id": {"tench layers": 21_842, "__": 0}})
    assert configuration.read(Path(source.removeprefix("hf:")))[0]["label2id"]["tench layers"] == 21_842


def test_counts_that_transformers_repeats_before_it_builds_are_limited() -> None:
    """transformers builds lists of these lengths while it reads a configuration, before any module."""
    transformers = pytest.importorskip("transformers")
    folder = Path(transformers.__file__).parent / "models"
    repeated = set()
    for path in folder.glob("*/configuration_*.py"):
        repeated.update(re.findall(r"range\((?:1, )?self\.(\w+)", path.read_text("utf-8")))
        repeated.update(re.findall(r"\"\] \* (?:int\()?self\.(\w+)", path.read_text("utf-8")))
    assert "num_hidden_layers" in repeated
    assert {each for each in repeated if configuration._upper_limit(each) > 20_000} == set()


def test_settings_that_transformers_looks_up_in_torch_are_checked() -> None:
    transformers = pytest.importorskip("transformers")
    looked_up = set()
    for path in (Path(transformers.__file__).parent / "models").glob("*/modeling_*.py"):
        looked_up.update(re.findall(r"getattr\(torch, (?:self\.)?config\.(\w+)\)", path.read_text("utf-8")))
    assert "router_dtype" in looked_up
    assert looked_up <= set(configuration._DTYPES)


def test_the_hub_can_be_reached_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub").constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with offline():
        with offline():
            assert constants.HF_HUB_OFFLINE
        assert constants.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE


@pytest.mark.parametrize(
    "name", ["hf-hub:timm/resnet18", "hf_hub:org/name", "local-dir:/tmp", "timm/resnet18"]
)
def test_timm_repositories_and_folders_are_refused(name: str) -> None:
    with pytest.raises(LoadError, match="sizeup makes no network requests"):
        sizeup.load(f"timm:{name}")


def test_a_pipe_of_nulls_is_no_configuration() -> None:
    with pytest.raises(LoadError, match="not a regular file"):
        sizeup.load("hf:/dev/zero")


def written(folder: Path, content: dict[str, Any]) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(content))
    return f"hf:{path}"
