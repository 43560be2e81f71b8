"""Speculative decoding, compared with hand calculations at data-sheet rates."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema  # type: ignore[import-untyped,unused-ignore] # its types are in a separate package
import pytest

import published_configs
import sizeup
from cli.running import run_command
from sizeup.errors import SizeupError

BANDWIDTH, MACS = 864e9, 362.05e12 / 2  # L40S: bytes and bf16 MACs per second
SMALL = "llama-3.1-8b.json"


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    published_configs.make(folder)
    content = json.loads((folder / "deepseek-v3.json").read_text())
    content["num_nextn_predict_layers"] = 1
    (folder / "deepseek-v3-mtp.json").write_text(json.dumps(content))
    return folder


def _step(context: float, tokens: int) -> float:
    """Seconds of one step of Llama-3.1-8B with one sequence on one L40S, without overhead.

    Parameters by class: attention with all norms, feed-forward network, head.
    """
    attention = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096)
    norms, dense, head = 65 * 4096, 32 * 3 * 4096 * 14336, 128256 * 4096
    seconds = 0.0
    for stored, products in ((attention + norms, attention), (dense, dense), (head, head)):
        seconds += ((2 * stored / BANDWIDTH) ** 4 + (products * tokens / MACS) ** 4) ** 0.25
    cache = 131072 * (context + tokens) / BANDWIDTH
    pairs = tokens * context + tokens * (tokens + 1) / 2
    return seconds + max(cache, 32 * 2 * 4096 * pairs / MACS)


@pytest.mark.parametrize(
    ("tokens", "acceptance", "per_step"),
    [(4, 0.7, 2.7731), (4, 0.0, 1.0), (4, 1.0, 5.0), (1, 0.5, 1.5), (2, 0.9, 2.71)],
)
def test_a_token_takes_its_share_of_one_verification_and_the_draft_steps(
    configs: Path, tokens: int, acceptance: float, per_step: float
) -> None:
    serving = sizeup.llm(
        configs / SMALL, target="l40s/vllm", input=1000, output=200, draft=configs / SMALL,
        draft_tokens=tokens, acceptance=acceptance,
    )  # fmt: skip
    assert serving.draft is not None
    assert serving.draft.tokens_per_step == pytest.approx(per_step, rel=1e-4)
    times = serving.times()
    assert times is not None
    expected = (_step(1100, tokens + 1) + tokens * _step(1100, 1)) / serving.draft.tokens_per_step
    assert times.points[0].tpot.seconds == pytest.approx(expected, rel=1e-9)
    assert sum(times.points[0].causes.values()) == pytest.approx(expected, rel=1e-9)
    assert times.caveats == ("no interval: speculative decoding is not among the measurements",)
    assert times.points[0].tpot.low is None


def test_the_draft_adds_its_weights_and_cache_to_each_gpu(configs: Path) -> None:
    options = {"target": "h100/vllm", "input": 1000, "output": 200}
    plain = sizeup.llm(configs / SMALL, **options)  # type: ignore[call-overload]
    drafted = sizeup.llm(
        configs / SMALL,
        draft=configs / SMALL,
        draft_tokens=4,
        acceptance=0.7,
        **options,  # type: ignore[call-overload]
    )
    assert drafted.draft_bytes == 2 * 8_030_261_248
    assert drafted.memory.weights_bytes == 4 * 8_030_261_248
    assert drafted.sequence_bytes == 2 * plain.sequence_bytes == 2 * 131_072 * 1200
    # Half of what 16 GB less hold.
    room = plain.memory.cache.expected - 2 * 8_030_261_248
    assert drafted.max_sequences() == pytest.approx(room / (2 * 131_072 * 1200), abs=1)
    assert drafted.points()[0].cache_bytes == 2 * plain.points()[0].cache_bytes
    assert drafted.layouts() == ()


def test_mtp_layers_are_a_draft_that_shares_embedding_and_head(configs: Path) -> None:
    options = {"target": "8xh200/vllm", "acceptance": 0.8, "draft_tokens": 1, "draft": "mtp"}
    serving = sizeup.llm(configs / "deepseek-v3-mtp.json", **options)  # type: ignore[call-overload]
    # A layer of 256 experts of 3 x 7168 x 2048 at 8 bits, divided by 8; attention, router and projection.
    experts = 257 * 3 * 7168 * 2048 / 8
    assert experts < serving.draft_bytes < 1.2 * experts
    times, plain = serving.times(), sizeup.llm(
        configs / "deepseek-v3-mtp.json", target="8xh200/vllm"
    ).times()  # fmt: skip
    assert times is not None
    assert plain is not None
    # One layer and the head take a small part of 61 layers, and 1.8 tokens come of a step.
    share = times.points[0].tpot.seconds / plain.points[0].tpot.seconds
    assert 1 / 1.8 < share < 1.5 / 1.8
    with pytest.raises(SizeupError, match="deepseek-v3 has no MTP layers that are described"):
        sizeup.llm(configs / "deepseek-v3.json", **options)  # type: ignore[call-overload]


def test_goals_are_searched_with_the_draft_in_layouts_that_have_a_place_for_it(configs: Path) -> None:
    serving = sizeup.llm(
        configs / "llama-3.1-70b.json", target="4xh100/vllm", draft=configs / SMALL, draft_tokens=3,
        acceptance=0.8, input=512, output=128, tpot="30ms", layout="tp4",
    )  # fmt: skip
    rows = serving.goal_rows()
    assert [str(row.layout) for row in rows] == ["tp4"]
    assert "draft" in rows[0].point.causes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draft": SMALL}, "a draft needs draft tokens: give an integer from 1 to 64"),
        ({"draft": SMALL, "draft_tokens": 0}, "give an integer from 1 to 64"),
        ({"draft": SMALL, "draft_tokens": True}, "give an integer from 1 to 64"),
        ({"draft": SMALL, "draft_tokens": 4}, "give acceptance from 0 to 1"),
        *(
            ({"draft": SMALL, "draft_tokens": 4, "acceptance": share}, "give acceptance from 0 to 1")
            for share in (-0.1, 1.1, float("nan"), float("inf"))
        ),
        ({"draft_tokens": 4}, "draft tokens and an acceptance need a draft"),
        (
            {"draft": "qwen3-30b-a3b.json", "draft_tokens": 4, "acceptance": 0.7},
            "draft qwen3-30b-a3b has a vocabulary of 151,936, and llama-3.1-70b one of 128,256",
        ),
        (
            {"draft": SMALL, "draft_tokens": 4, "acceptance": 0.7, "layout": "tp4,pp2"},
            "--draft with layout tp4,pp2: engines run drafts without pipeline stages",
        ),
        (
            {"draft": SMALL, "draft_tokens": 4, "acceptance": 0.7, "rate": 1.0},
            "speculative decoding is not simulated",
        ),
    ],
)
def test_a_draft_that_cannot_be_one_is_refused(
    configs: Path, options: dict[str, object], message: str
) -> None:
    if "draft" in options:
        options = {**options, "draft": configs / str(options["draft"])}
    with pytest.raises(SizeupError, match=message):
        sizeup.llm(configs / "llama-3.1-70b.json", target="8xh100/vllm", **options)  # type: ignore[call-overload]


def test_a_draft_is_printed_in_the_json_and_on_the_page(configs: Path, tmp_path: Path) -> None:
    command = (
        "llm", configs / "llama-3.1-70b.json", "-d", "8xh100/vllm", "--draft", configs / SMALL,
        "--draft-tokens", "4", "--acceptance", "0.7",
    )  # fmt: skip
    text = " ".join(run_command(*command).stdout.split())
    assert "4 tokens per step, each accepted with probability 0.7: 2.77 tokens per step and sequence" in text
    assert "MTP layers are not loaded" not in text
    page = tmp_path / "draft.html"
    content = json.loads(run_command(*command, "--json", "-o", page).stdout)
    shown = page.read_text("utf-8")
    assert "They are not computed with a draft." in shown
    assert 'id="layouts"' not in shown
    jsonschema.validate(content, json.loads((files("sizeup.serving.render") / "llm_schema.json").read_text()))
    assert content["draft"]["tokens"] == 4
    # A draft of 810 GB does not fit, and the model alone does.
    refused = run_command(
        "llm", configs / "llama-3.1-70b.json", "-d", "2xh100/vllm", "--weights", "fp8",
        "--draft", configs / "llama-3.1-405b.json", "--draft-tokens", "4", "--acceptance", "0.7",
    )  # fmt: skip
    assert "would fit no --draft" in " ".join(refused.stdout.split())
