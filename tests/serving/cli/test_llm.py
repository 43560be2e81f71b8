"""`sizeup llm` and `sizeup.llm` as their users meet them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema  # type: ignore[import-untyped,unused-ignore] # its types are in a separate package
import pytest

import published_configs
import sizeup
from cli.running import run_command as run
from timing import undisturbed

_SCHEMA = json.loads((files("sizeup.serving.render") / "llm_schema.json").read_text())


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    published_configs.make(folder)
    return folder


def lines(done: subprocess.CompletedProcess[str], code: int = 0) -> list[str]:
    assert (done.returncode, done.stderr) == (code, "")
    # A verdict and a command to copy are never broken.
    broken = [line for line in done.stdout.splitlines() if not re.match(r"YES:|NO:|UNDET| *\$ sizeup", line)]
    assert max(map(len, broken)) <= 80
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def test_the_verdict_comes_first_then_the_memory_of_the_fullest_gpu(configs: Path) -> None:
    shown = lines(run("llm", configs / "llama-3.1-70b.json", "-d", "8xh100/vllm", "--concurrency", "1:4"))
    assert shown[0] == "llama-3.1-70b on 8 x h100-sxm, vLLM 0.24, tp8"
    assert shown[1].startswith("fits yes: 1 sequence of 4,608 tokens; at most 30")
    assert "16.4 GiB 20.5% weights" in shown
    assert "sequences cache per GPU longest context fits" in shown
    assert [line.split()[0] for line in shown if line.endswith(" yes") and line[0].isdigit()] == [
        "1",
        "2",
        "4",
    ]
    assert any(line.endswith("tp8") and "GiB" in line for line in shown)


def test_a_model_that_does_not_fit_is_told_with_what_it_would(configs: Path) -> None:
    config = configs / "llama-3.1-405b.json"
    shown = lines(run("llm", config, "-d", "8xh100/vllm"), 1)
    assert shown[1].startswith("fits no: weights and buffers exceed what a GPU can hold by 2")
    assert "NO: llama-3.1-405b (language model) does not fit on 8xh100-sxm/vllm" in shown
    assert [line.partition(" --in 4096 --out 512 ")[::2] for line in shown if line.startswith("$")] == [
        (f"$ sizeup llm {config} -d 8xh100/vllm", "--concurrency 1 --weights fp8"),
        (f"$ sizeup llm {config} -d 8xh100/vllm", "--concurrency 1 --weights int4"),
        (f"$ sizeup llm {config} -d 2x8xh100-sxm/vllm", "--concurrency 1"),
    ]
    content = json.loads(run("llm", config, "-d", "8xh100/vllm", "--json").stdout)
    assert content["remedies"] == ["--weights fp8", "--weights int4", "-d 2x8xh100-sxm/vllm"]
    shown = lines(run("llm", configs / "llama-3.1-405b.json", "-d", "8xh100/vllm", "--weights", "fp8"))
    assert shown[1].startswith("fits yes")


def test_times_have_intervals_and_a_basis_if_the_engine_is_calibrated(configs: Path) -> None:
    shown = lines(run("llm", configs / "llama-3.1-70b.json", "-d", "8xh100/vllm", "--concurrency", "1,64"))
    start = shown.index("requests TPOT 90 % interval TTFT 90 % interval")
    for line, requests in zip(shown[start + 1 : start + 3], ("1", "64"), strict=True):
        assert re.fullmatch(rf"{requests} [0-9.]+ ms [0-9.]+ ms - [0-9.]+ ms [0-9.]+ m?s [0-9.ms -]+", line)
    assert any(line.startswith("basis calibrated for vLLM 0.12.0 to 0.19.0 on h100-sxm") for line in shown)


def test_times_without_a_calibration_are_lower_bounds(configs: Path) -> None:
    shown = lines(run("llm", configs / "llama-3.1-8b.json", "-d", "l40s/vllm"))
    # 15.0 GB of weights without the embedding and 0.6 GB of cache at 864 GB/s
    assert any(re.fullmatch("1 at least 18 ms none at least [0-9]+ ms none", line) for line in shown)
    assert any(
        line.startswith("basis data sheet of l40s, without overhead; not calibrated") for line in shown
    )
    text = " ".join(lines(run("llm", configs / "llama-3.1-8b.json", "-d", "2xgh200/vllm")))
    assert "without overhead; the calibration for vLLM needs the bandwidth of all links" in text


def test_goals_list_layouts_with_their_most_requests(configs: Path) -> None:
    command = ("llm", configs / "llama-3.1-70b.json", "-d", "8xh100/vllm", "--in", "1024", "--out", "256")
    shown = lines(run(*command, "--ttft", "1s", "--tpot", "30ms"))
    start = shown.index("requests TPOT TTFT tokens/s per user tokens/s per GPU rank layout")
    assert re.fullmatch(r"[0-9]+ [0-9.]+ ms [0-9.]+ m?s [0-9.]+ [0-9,.]+ best [a-z0-9,]+", shown[start + 1])
    assert any(line.startswith("goals TTFT at most 1 s and TPOT at most 30 ms") for line in shown)
    goals = json.loads(run(*command, "--tpot", "30ms", "--json").stdout)["goals"]
    assert goals["ttft_seconds"] is None
    assert goals["layouts"][0]["tpot_seconds"]["expected"] <= goals["tpot_seconds"] == 0.03
    missed = lines(run(*command, "--tpot", "1us"), 1)
    assert any("no layout that fits reaches" in line for line in missed)


def test_random_arrivals_have_percentiles_or_an_overload(configs: Path) -> None:
    command = ("llm", configs / "llama-3.1-70b.json", "-d", "8xh100/vllm", "--in", "1024", "--out", "256")
    shown = lines(run(*command, "--rate", "4"))
    start = shown.index("mean p50 p90 p99 simulated")
    for line, name in zip(shown[start + 1 : start + 3], ("TTFT", "TPOT"), strict=True):
        assert re.fullmatch(rf"([0-9.]+ m?s ){{4}}{name}", line)
    overloaded = lines(run(*command, "--rate", "1000"))
    assert any(line.startswith("traffic overloaded: 1,000 requests/s arrive, at most") for line in overloaded)
    traffic = json.loads(run(*command, "--rate", "1000", "--json").stdout)["traffic"]
    assert (traffic["is_overloaded"], traffic["ttft_seconds"], traffic["preemptions"]) == (True, None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-d", "l40s/vllm", "--rate", "4"), "a rate needs calibrated times, and vLLM on l40s has none"),
        (("-d", "h100/vllm", "--shared-prefix", "2k"), "give a number of tokens, and a rate or a trace"),
        (
            ("-d", "h100/vllm", "--in", "2k", "--rate", "4", "--shared-prefix", "2k"),
            "shared_prefix: give fewer tokens than those of a prompt, 2,048",
        ),
        (("-d", "h100/vllm", "--rate", "0"), "rate: give requests per second from 1e-06 to 1,000,000"),
        (("-d", "h100/vllm", "--rate", "nan"), "rate: give requests per second from 1e-06 to 1,000,000"),
    ],
)
def test_a_rate_that_cannot_be_simulated_says_why(
    configs: Path, options: tuple[str, ...], message: str
) -> None:
    done = run("llm", configs / "llama-3.1-8b.json", *options)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def test_layouts_are_ordered_by_memory_or_communication(configs: Path) -> None:
    command = ("llm", configs / "llama-3.1-8b.json", "-d", "8xh100/vllm", "--top", "10")
    by_memory, by_communication = (
        [line.split()[-1] for line in lines(run(*command, *options)) if re.search("yes [tpd]p[0-9]", line)]
        for options in ((), ("--by", "communication"))
    )
    # The last of two stages has half of the layers and a fourth of the head.
    assert by_memory[:2] == ["tp4,pp2", "tp8"]
    assert by_communication[0] == by_memory[-1] == "dp8"


@pytest.mark.parametrize(
    ("name", "target", "options"),
    [
        ("llama-3.1-8b", "h100/llamacpp", ()),
        ("deepseek-v3", "8xh200/sglang", ("--layout", "dp8,ep8")),
        ("deepseek-v3", "4x8xh100/trtllm", ("--kv", "fp8", "--concurrency", "1,64")),
        ("llama-3.1-405b", "8xh100", ()),
    ],
)
def test_json_follows_its_schema(configs: Path, name: str, target: str, options: tuple[str, ...]) -> None:
    done = run("llm", configs / f"{name}.json", "-d", target, "--json", *options)
    content = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == ({True: 0, False: 1, None: 3}[content["check"]["fits"]], "")
    jsonschema.validate(content, _SCHEMA)
    jsonschema.Draft202012Validator.check_schema(_SCHEMA)
    for gpu in content["gpus"]:
        held = gpu["weights_bytes"] + gpu["tower_bytes"] + gpu["cache_bytes"]["expected"]
        assert content["fits"] == "no" or held <= gpu["total_bytes"]


def test_the_page_has_a_bar_per_stage_and_the_curve(configs: Path, tmp_path: Path) -> None:
    page = tmp_path / "llm.html"
    done = run("llm", configs / "llama-3.1-405b.json", "-d", "2x8xh100/vllm", "-o", page)
    assert done.returncode == 0
    text = page.read_text("utf-8")
    assert text.count('aria-label="Memory, stage') == 2
    assert "<polyline" in text
    assert "http://" not in text.split("<script")[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-d", "8xh100/ollama"), "serving engine 'ollama' is unknown"),
        (("-d", "8xh100", "--in", "four"), "--in four: write a number of tokens, such as 4096 or 32k"),
        (("-d", "8xh100", "--in", "256k"), "exceed the context of llama-3.1-70b, 131,072 tokens"),
        (("-d", "8xh100", "--concurrency", "many"), "--concurrency many: write 64, 1,8,64 or 1:256"),
        (("-d", "8xh100", "--concurrency", "0"), "concurrency: give integers from 1"),
        (
            ("-d", "8xh100", "--concurrency", "8:1"),
            "--concurrency 8:1: write the smaller number first, e.g. 1:8",
        ),
        (("-d", "stm32h743"), "stm32h743 is a microcontroller"),
        (("-d", "rpi5/llamacpp"), "rpi5 is a single-board computer"),
        (("-d", "8xh100", "--weights", "fp3"), "weight precision 'fp3' is unknown"),
        (("-d", "8xh100", "--kv", "fp3"), "cache precision 'fp3' is unknown"),
        (("-d", "8xh100", "--layout", "tp3"), "--layout tp3"),
        (
            ("-d", "8xh100", "-o", "llm.csv"),
            "a serving estimate is written as .json, .html, .md, .xml or .code",
        ),
    ],
)
def test_wrong_options_are_told(configs: Path, options: tuple[str, ...], message: str) -> None:
    done = run("llm", configs / "llama-3.1-70b.json", *options)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def test_the_result_answers_questions(configs: Path) -> None:
    serving = sizeup.llm(
        configs / "llama-3.1-70b.json", target="8xh100/vllm", input=4096, output=512, concurrency=[1, 64],
        weights="fp8", kv="fp8", layout=sizeup.Layout(tensor=4, data=2),
    )  # fmt: skip
    assert serving.fits == "yes"
    assert serving.memory.weights_bytes == 18_166_071_296
    most = serving.max_sequences(8192)
    assert serving.max_context(most) >= 8192
    assert serving.max_context(most + 2) < 8192
    assert [row.fits for row in serving.layouts(3)] == ["yes"] * 3
    by_communication = serving.layouts(100, by="communication")
    # Copies on each GPU send nothing, and leave room for 3 sequences each.
    last = by_communication[-1]
    assert (str(last.layout), last.link_bytes, last.fits, last.max_sequences) == ("dp8", 0, "no", 24)
    assert all(row.fits == "yes" for row in by_communication[:-1])


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": 4.5},
        {"input": "4k"},
        {"output": True},
        {"concurrency": "1:8"},
        {"concurrency": range(1, 10**7)},
    ],
)
def test_wrong_numbers_are_refused(configs: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(sizeup.SizeupError, match=f"{next(iter(wrong))}: give "):
        sizeup.llm(configs / "llama-3.1-70b.json", target="8xh100", **wrong)  # type: ignore[call-overload]


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_questions_about_no_sequence_or_token_are_refused(configs: Path, count: int) -> None:
    serving = sizeup.llm(configs / "llama-3.1-70b.json", target="8xh100")
    for question in (serving.max_sequences, serving.max_context):
        with pytest.raises(sizeup.SizeupError, match="give an integer of at least 1"):
            question(count)


def test_llamacpp_gives_each_gpu_whole_layers(configs: Path) -> None:
    serving = sizeup.llm(configs / "llama-3.1-70b.json", target="8xh100 / LlamaCpp")
    assert str(serving.layout) == "pp8"
    assert "layout: --split-mode layer" in serving.assumptions


def test_layouts_state_the_concurrency_at_which_they_are_compared(configs: Path) -> None:
    shown = lines(run("llm", configs / "llama-3.1-70b.json", "-d", "8xh100", "--concurrency", "1:64"))
    assert "layouts for 64 sequences of 4,608 tokens, per GPU:" in shown


def test_what_was_measured_on_other_gpus_is_stated(configs: Path) -> None:
    path = configs / "llama-3.1-70b.json"
    assert any("NVIDIA GPUs" in text for text in sizeup.llm(path, target="8xmi300x").assumptions)
    assert any("ECC is on" in text for text in sizeup.llm(path, target="8xl4").assumptions)
    assert not any("transfer" in text for text in sizeup.llm(path, target="l4").assumptions)


def test_fewer_gpus_need_more_of_each(configs: Path) -> None:
    counts = [
        sizeup.llm(configs / "llama-3.1-70b.json", target=f"{count}xh100/vllm").max_sequences()
        for count in (1, 2, 4, 8)
    ]
    assert counts[0] == 0
    assert counts == sorted(counts)


def test_neither_torch_nor_onnx_nor_pandas_is_imported(configs: Path) -> None:
    code = (
        "import sys, sizeup; sizeup.llm(sys.argv[1], target='8xh100/vllm').to_dict();"
        "print([name for name in ('torch', 'onnx', 'pandas', 'transformers') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(configs / "llama-3.1-8b.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.alone
def test_a_verdict_takes_less_than_a_second_of_cpu_time(configs: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sizeup", "llm", str(configs / "deepseek-v3.json"), "-d", "8xh200/vllm"]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    variables["PYTHONPYCACHEPREFIX"] = str(tmp_path)
    subprocess.run(command, check=True, capture_output=True, env=variables)  # compiles modules
    with undisturbed() as taken:
        subprocess.run(command, check=True, capture_output=True, env=variables)
    assert taken.seconds < 1.0
