"""The check of `sizeup llm`: verdicts and exit codes are those of the engine's cache."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

import sizeup
from cli.running import Run
from sizeup.serving.checks.check import ServingCheck
from sizeup.serving.checks.remedies import _larger_clusters, serving_remedies
from sizeup.targets.cluster_names import is_cluster
from sizeup.targets.clusters import cluster

# Llama-3.1-8B: 16.06 GB of bf16 weights, 131,072 bytes of cache per token.
LLAMA = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
HYBRID = {
    **LLAMA,
    "model_type": "gemma3_text",
    "head_dim": 128,
    "sliding_window": 1024,
    "layer_types": ["sliding_attention", "full_attention"] * 16,
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA), "utf-8")
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "verdict"),
    [
        (("-d", "2xh100/vllm", "--concurrency", "8"), 0, "yes: 8 sequences"),
        (("-d", "l4/vllm", "--in", "100k"), 1, "NO:"),  # 16.1 GB of weights and 13.3 GB of cache in 24 GiB
        (("-d", "2xh100", "--in", "64k", "--concurrency", "1:1024"), 1, "NO:"),
        (("-d", "2xl4/vllm", "--in", "64k", "--weights", "fp8", "--kv", "fp8"), 0, "yes: 1 sequence"),
        (("-d", "h100/vllm"), 0, "yes: 1 sequence"),
        (("-d", "h100"), 0, "yes: 1 sequence"),
    ],
)
def test_the_exit_code_is_the_verdict(
    run: Run, config: Path, arguments: tuple[str, ...], code: int, verdict: str
) -> None:
    ended = run("llm", str(config), *arguments)
    assert ended.code == code, ended
    assert verdict in ended.out
    assert ("YES:" in ended.out, "NO:" in ended.out) == (False, code == 1)


def test_a_check_is_written_as_any_other(run: Run, config: Path, tmp_path: Path) -> None:
    out = tmp_path / "check.xml"
    files = [tmp_path / f"check.{ending}" for ending in ("md", "codequality.json", "json")]
    outputs = [text for file in (out, *files) for text in ("-o", str(file))]
    ended = run("llm", str(config), "-d", "l4/sglang", "--in", "100k", "--json", *outputs)
    content = json.loads(ended.out)["check"]
    assert (ended.code, content["fits"], content["verdict"]) == (1, False, "does not fit")
    assert [limit["name"] for limit in content["limits"]] == ["ram"]
    assert content["remedies"][0]["command"].startswith("sizeup llm ")
    assert content == json.loads(files[2].read_text("utf-8"))["check"]
    assert 'failures="1"' in out.read_text("utf-8")
    printed = run("llm", str(config), "-d", "l4/sglang", "--in", "100k", "--markdown").out
    assert files[0].read_text("utf-8") == printed
    assert "does not fit" in printed
    issue, *_ = json.loads(files[1].read_text("utf-8"))
    assert issue["location"]["path"].endswith("config.json")
    annotated = run("llm", str(config), "-d", "l4/sglang", "--in", "100k", "--github", "--top", "0").out
    assert "::error" in annotated


def test_no_verdict_of_an_earlier_run_is_left_after_an_error(run: Run, config: Path, tmp_path: Path) -> None:
    out = tmp_path / "check.xml"
    assert run("llm", str(config), "-d", "h100", "-o", str(out)).code == 0
    assert 'errors="0"' in out.read_text("utf-8")
    config.write_text("{}", "utf-8")
    assert run("llm", str(config), "-d", "h100", "-o", str(out)).code == 2
    assert 'errors="1"' in out.read_text("utf-8")


@pytest.mark.parametrize("typed", [("-d", "8xh100/vllm"), ("-d", "h100"), ("-d", "8xh100", "--ram", "1GB")])
def test_check_states_the_command_to_type(run: Run, config: Path, typed: tuple[str, ...]) -> None:
    ended = run("check", str(config), *typed)
    command = f"sizeup llm {shlex.quote(str(config))} -d {typed[1]}"
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines()[0].endswith(f"type: {command}")
    assert run(*shlex.split(command)[1:]).code == 0
    ended = run("check", str(config), "-d", "8xh100", "--tpot", "30ms")
    assert ended.code == 2
    assert "no such option: --tpot; for language models: sizeup llm CONFIG -d TARGET --tpot" in ended.err


def test_a_budget_states_the_command_to_type(run: Run, config: Path, tmp_path: Path) -> None:
    budgets = tmp_path / "budgets.toml"
    for setting, message in (
        ('target = "8xh100/vllm"', "type: sizeup llm CONFIG -d 8xh100/vllm"),
        ('macs = "3G"', f"{config.name}: no graph; sizeup llm reads language models"),
    ):
        budgets.write_text(f'[[budget]]\nmodels = "{config.name}"\n{setting}\n', "utf-8")
        ended = run("check", "--budget", str(budgets))
        assert (ended.code, message in ended.err) == (2, True), ended


def test_check_of_another_model_on_a_cluster_names_the_command(run: Run, keywords: Path) -> None:
    ended = run("check", str(keywords), "-d", "8xh100/vllm")
    assert ended.code == 2
    assert "only language models are served on a cluster; type: sizeup llm" in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-d", "8xh100", "--out", "1", "--tpot", "30ms"), "answers of one token have no time per output"),
        (("--concurrency", "8"), "missing option '--device'"),
        (("-d", "8xh100", "--latency", "1ms"), "no such option: --latency"),
        (("-d", "h100", "--steps", "4"), "steps, guidance and text tokens are of diffusion transformers"),
        (("-d", "8xh100/vllm", "--in", "many"), "write a number of tokens"),
    ],
)
def test_options_that_contradict_are_refused(
    run: Run, config: Path, arguments: tuple[str, ...], message: str
) -> None:
    ended = run("llm", str(config), *arguments)
    assert ended.code == 2
    assert message in ended.err


@pytest.mark.parametrize("model", [LLAMA, HYBRID], ids=["full", "windows"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp"])
def test_the_verdict_is_that_of_the_engine(tmp_path: Path, model: dict[str, object], engine: str) -> None:
    """At every concurrency near the largest one, where a byte decides."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(model), "utf-8")
    target = f"2xl4/{engine}"
    serving = sizeup.llm(path, target=target, input=4000, output=96)
    low, high = serving.sequences_range()
    verdicts = {"yes": True, "no": False, "undetermined": None}
    near = {max(count + shift, 1) for count in (low, high) for shift in range(-3, 4)}
    for concurrency in sorted(near):
        check = ServingCheck(str(path), target, 4000, 96, concurrency)
        assert check.fits is verdicts[serving.fits_at(concurrency)], concurrency
        one = sizeup.llm(path, target=target, input=4000, output=96, concurrency=concurrency, remedies=False)
        assert one.check is not None
        assert (one.check.limits, one.check.remedies) == (check.limits, ())


@pytest.mark.parametrize(("layout", "each"), [("tp1", 2), ("tp2", 3)])
def test_replicas_share_the_sequences(config: Path, layout: str, each: int) -> None:
    check = ServingCheck(str(config), "2xh100/vllm", 1000, 24, concurrency=3, layout=layout)
    cache = check.limit.parts[-1]
    assert cache.basis == f"{each} sequences of 1,024 tokens"
    # 32 layers, 8 heads of 128 numbers, keys and values of 2 B; half of the heads are on each of two GPUs.
    assert cache.low_bytes == each * 1024 * 32 * 8 * 128 * 2 * 2 // (2 if layout == "tp2" else 1)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp"])
def test_no_part_of_the_memory_is_negative(config: Path, engine: str) -> None:
    """The driver of an H100 takes 0.4 to 1.3 % of its memory, SGLang's buffers are outside of its share."""
    for part in ServingCheck(str(config), f"h100/{engine}").limit.parts:
        assert part.high_bytes is not None
        assert 0 <= part.low_bytes <= part.high_bytes, part


@pytest.mark.parametrize("target", ["8xh100", "2x8xh100/vllm", "dgx-h100", "h100/sglang", "DGX-B200/vllm"])
def test_clusters_are_recognized(target: str) -> None:
    assert is_cluster(target)


@pytest.mark.parametrize("target", [None, "", "stm32f746/tflm", "h100", "a100/vllm", "rpi5/ort", "x.toml"])
def test_other_targets_are_no_clusters(target: str | None) -> None:
    assert not is_cluster(target)


RACK = '[cluster]\nname = "rack"\n[[node]]\ncount = 2\ndevices = { name = "l4", count = 4 }\n'


def test_a_cluster_file_is_a_target(run: Run, config: Path, tmp_path: Path) -> None:
    rack = tmp_path / "rack.toml"
    rack.write_text(RACK, "utf-8")
    ended = run("llm", str(config), "-d", str(rack), "--markdown")
    assert (ended.code, ended.err) == (0, "")
    assert "fits on rack/vllm" in ended.out
    rack.write_text(RACK.replace("count = 4", "cuont = 4"), "utf-8")
    ended = run("llm", str(config), "-d", str(rack))
    assert ended.code == 2
    assert "unknown key 'cuont'; nearest: count" in ended.err


def test_a_file_that_is_no_cluster_is_named(run: Run, config: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[node]\n", "utf-8")
    ended = run("llm", str(config), "-d", str(other), "--concurrency", "2")
    assert ended.code == 2
    assert "unknown key 'node'" in ended.err
    with pytest.raises(sizeup.SizeupError, match=r"not a cluster file: \[cluster\] is missing"):
        sizeup.llm(config, target=str(other), concurrency=2)


def test_python_checks_language_models_too(config: Path) -> None:
    check = sizeup.llm(config, target="2xh100/vllm", concurrency=8, kv="fp8", input=1000).check
    assert check is not None
    assert (check.fits, check.format, check.target) == (True, "language model", "2xh100-sxm/vllm")
    for is_searched in (False, True):
        other = sizeup.llm(str(config), target="l4/vllm", input=100_000, remedies=is_searched).check
        assert other is not None
        assert bool(other.remedies) is other.has_searched_remedies is is_searched


def test_python_states_the_call(config: Path) -> None:
    with pytest.raises(sizeup.SizeupError, match=r"call: (sizeup\.llm\(.*\)\.check)$") as raised:
        sizeup.check(config, "2xh100", precision="int8")
    call = str(raised.value).partition("call: ")[2]
    assert eval(call, {"sizeup": sizeup}).fits is True
    with pytest.raises(sizeup.SizeupError, match="target='TARGET'"):
        sizeup.check(config)


def test_remedies_fit_as_printed(run: Run, config: Path) -> None:
    """Every command is run; 16.1 GB of weights and 4.6 GB of cache may exceed what an L4 has for them.

    Of 22.5 GiB, the driver and vLLM leave 20.2, weights and at most 2.4 GiB of buffers 2.9: 2 of 1.06.
    """
    ended = run("llm", str(config), "-d", "l4/vllm", "--in", "8k", "--concurrency", "4")
    assert ended.code == 3
    commands = [line.strip().removeprefix("$ ") for line in ended.out.splitlines() if "$ sizeup" in line]
    options = [set(command.split()) for command in commands]
    for expected in ({"--concurrency", "2"}, {"--kv", "fp8"}, {"--weights", "int4"}, {"2xl4/vllm"}):
        assert any(expected <= words for words in options), (expected, ended.out)
    assert "changes the model: quantize it" in ended.out
    for command in commands:
        again = run(*shlex.split(command)[1:])
        assert (again.code, "fits         yes:" in again.out) == (0, True), command
    shorter = next(words for words in map(str.split, commands) if words[words.index("--in") + 1] != "8192")
    tokens = int(shorter[shorter.index("--in") + 1])
    longer = [*shorter[1:]]
    longer[longer.index("--in") + 1] = str(tokens + 32)  # two blocks more
    assert run(*longer, "--no-remedies").code != 0


def test_more_gpus_are_the_fewest(config: Path) -> None:
    """70 GB of cache on 24 GiB each: fewer GPUs than proposed do not fit in any layout."""
    check = sizeup.llm(config, target="l4/vllm", input=32_000, concurrency=16).check
    assert check is not None
    (remedy,) = (remedy for remedy in check.remedies if " x l4 as " in remedy.description)
    count = int(remedy.description.split()[0])
    assert remedy.fits is True
    assert count > 2
    for fewer in range(1, count):
        serving = sizeup.llm(config, target=f"{fewer}xl4/vllm", input=32_000, concurrency=16)
        assert all(row.fits != "yes" for row in serving.layouts(20)), fewer


def test_another_layout_holds_answers_that_are_longer_than_prompts(config: Path) -> None:
    """4 caches of 4.1 GB: two beside all weights (16.1 GB) exceed 24 GiB, half of four beside half do not."""
    check = ServingCheck(str(config), "2xl4/vllm", 1_000, 30_000, 4, layout="tp1")
    assert check.fits is False
    remedy = serving_remedies(check)[0]
    assert remedy.description in ("layout tp2", "layout pp2")
    (change,) = remedy.changes
    assert (change.name, change.before, change.fits) == ("ram", check.limit.need, True)
    assert change.after <= (check.limit.maximum or 0) < change.before


def test_prompts_may_be_shortened_to_one_token(config: Path) -> None:
    context = ServingCheck(str(config), "l4/vllm").deployment.gpus[0].capacity_low.max_context(1)
    for answer, tokens in ((context - 1, ["prompts of at most 1 token"]), (context, [])):
        check = ServingCheck(str(config), "l4/vllm", 10_000, answer)
        described = [remedy.description for remedy in serving_remedies(check)]
        assert [text for text in described if text.startswith("prompts")] == tokens


def test_without_an_interval_only_expected_times_meet_a_limit(config: Path) -> None:
    check = ServingCheck(str(config), "2xh100/sglang", tpot=1.0)
    assert (check.fits, replace(check, expected=True).fits) == (None, True)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_without_memory_for_a_cache_buffers_are_those_that_count_in_the_share(
    config: Path, engine: str
) -> None:
    """16.1 GB of weights leave nothing of 16 GiB; the share of SGLang has no activations and graphs."""
    check = ServingCheck(str(config), f"t4/{engine}")
    gpu = check.deployment.gpus[0]
    assert gpu.cache.high == 0
    buffers = [gpu.context, gpu.communication]
    if engine == "vllm":
        buffers += [gpu.activations, gpu.graphs]
    part = check.limit.parts[1]
    assert (part.low_bytes, part.high_bytes) == (sum(b.low for b in buffers), sum(b.high for b in buffers))


def test_nothing_helps_if_times_are_unknown(config: Path) -> None:
    """The bandwidth or arithmetic of a Tesla P4 is not in the catalog."""
    check = ServingCheck(str(config), "4xp4/vllm", 1_000, 24, tpot=1.0)
    assert (check.times, check.fits, serving_remedies(check)) == (None, None, ())


@pytest.mark.parametrize(
    ("target", "in_one_node", "texts"),
    [
        ("6xh100", 2, ["7xh100-sxm", "8xh100-sxm", *(f"{nodes}x8xh100-sxm" for nodes in range(2, 129))]),
        ("254x4xh100", 0, ["255x4xh100-sxm", "256x4xh100-sxm"]),
    ],
)
def test_at_most_1024_devices_are_tried_one_node_first(
    target: str, in_one_node: int, texts: list[str]
) -> None:
    machines = cluster(target)[0]
    assert list(_larger_clusters(machines, True)) == texts
    assert list(_larger_clusters(machines, False)) == texts[:in_one_node]


@pytest.mark.parametrize("expected", [False, True])
def test_several_nodes_meet_a_limit_of_times_if_expected_times_are_compared(
    config: Path, expected: bool
) -> None:
    """200 caches of 4.2 GB exceed 8 x 80 GiB, not 16 x 80 GiB; times on several nodes have no interval."""
    check = ServingCheck(str(config), "8xh100/vllm", 32_000, 256, 200, tpot=10.0, expected=expected)
    remedies = [
        remedy.description for remedy in serving_remedies(check) if " x h100-sxm as " in remedy.description
    ]
    assert [description.split(" as ")[0] for description in remedies] == ["16 x h100-sxm"] * expected


def test_remedies_can_be_left_out(run: Run, config: Path) -> None:
    ended = run("llm", str(config), "-d", "l4/vllm", "--in", "100k", "--no-remedies")
    assert ended.code == 1
    assert "$ sizeup" not in ended.out
    assert "No remedy found" not in ended.out


GOALS = ("--in", "1k", "--out", "256", "--concurrency", "64", "-d")


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        # vLLM has an interval, SGLang has none; on an A100, SGLang has no calibration.
        (("2xh100/vllm", "--tpot", "1s", "--ttft", "10s"), 0, "YES:"),
        (("2xh100/vllm", "--tpot", "1us"), 1, "over TPOT:"),
        (("2xh100/vllm", "--tpot", "1us"), 1, "(language model) is over its limits on 2xh100-sxm/vllm"),
        (("l4/vllm", "--in", "100k", "--tpot", "1us", "--no-remedies"), 1, "does not fit on l4/vllm"),
        (("gh200/vllm", "--tpot", "1s", "--ttft", "9s"), 3, "TPOT: as for TTFT; --expected compares"),
        (("2xh100/sglang", "--tpot", "1s"), 3, "no interval: it did not hold"),
        (("2xh100/sglang", "--tpot", "1s", "--expected"), 0, "YES:"),
        (("2xa100/sglang", "--tpot", "1s"), 3, "only a lower bound of TPOT is known"),
        (("2xa100/sglang", "--tpot", "1us"), 1, "at least"),
        (("2xa100/sglang", "--tpot", "1s", "--expected"), 3, "only a lower bound of TPOT is known"),
        (("l4/vllm", "--in", "100k", "--ttft", "1us", "--no-remedies"), 1, "n/a TTFT"),
    ],
)
def test_times_are_limits_like_latency(
    run: Run, config: Path, arguments: tuple[str, ...], code: int, shown: str
) -> None:
    ended = run("llm", str(config), *GOALS, *arguments)
    assert ended.code == code, ended
    assert shown in " ".join(ended.out.split())


def test_a_time_within_the_interval_is_undetermined_and_fewer_requests_help(run: Run, config: Path) -> None:
    serving = sizeup.llm(config, target="2xh100/vllm", input=1024, output=256, concurrency=64)
    times = serving.times()
    assert times is not None
    goal = f"{1.01e3 * times.points[0].tpot.seconds:.6g}ms"
    ended = run("llm", str(config), *GOALS, "2xh100/vllm", "--tpot", goal)
    assert (ended.code, "UNDETERMINED:" in ended.out) == (3, True)
    commands = [line.strip().removeprefix("$ ") for line in ended.out.splitlines() if "$ sizeup" in line]
    assert any("concurrent sequences" in line for line in ended.out.splitlines())
    for command in commands:
        again = run(*shlex.split(command)[1:])
        assert (again.code, "YES:" in again.out) == (0, True), command
    assert run("llm", str(config), *GOALS, "2xh100/vllm", "--tpot", goal, "--expected").code == 0


def test_python_limits_times_too(config: Path) -> None:
    serving = sizeup.llm(config, target="2xh100/vllm", concurrency=[1, 8], tpot=1.0, ttft="10 s")
    check, times = serving.check, serving.times()
    assert check is not None
    assert times is not None
    assert [limit.expected for limit in check.limits[1:]] == [
        each.seconds for each in (times.points[-1].ttft, times.points[-1].tpot)
    ]
    assert (check.fits, [limit.name for limit in check.limits]) == (True, ["ram", "ttft", "tpot"])
    assert sizeup.llm(config, target="2xh100/vllm", tpot="1us", remedies=False).verdict == "no"
    with pytest.raises(sizeup.SizeupError, match="--tpot"):
        sizeup.llm(config, target="2xh100/vllm", tpot="fast")
