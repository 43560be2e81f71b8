"""Times of prompts with images, compared with hand calculations at data-sheet rates."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore] # its types are in a separate package
import pytest

import published_configs
import sizeup
from cli.running import run_command
from sizeup.errors import SizeupError
from sizeup.serving.results.llm import Serving
from sizeup.serving.times.estimate import ServingPoint

BANDWIDTH, MACS = 864e9, 362.05e12 / 2  # L40S: bytes and bf16 MACs per second
IMAGE = {"images": 1, "image_size": "1024x768"}
TOKENS = 768  # 32 x 24, of 3,072 patches


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    published_configs.make(folder)
    return folder / "qwen3-vl-8b.json"


def _tower(ways: int = 1) -> float:
    """Seconds of the tower of Qwen3-VL-8B for one image on one L40S, without overhead."""
    patch = 3 * 2 * 16 * 16 * 1152
    blocks = 27 * (4 * 1152 * 1152 + 2 * 1152 * 4304)
    mergers = 4 * (4608 * 4608 + 4608 * 4096)
    macs = 3072 * (patch + blocks) + TOKENS * mergers
    stored = 2 * (patch + 1152 + blocks + mergers)
    attention = 27 * 2 * 3072 * 3072 * 1152
    seconds: float = (((stored / BANDWIDTH) ** 4 + (macs / MACS) ** 4) ** 0.25 + attention / MACS) / ways
    return seconds


def _serve(model: Path, **options: Any) -> Serving:
    serving: Serving = sizeup.llm(model, **{"target": "l40s/vllm", "input": 1000, "output": 200, **options})
    return serving


def _points(serving: Serving) -> tuple[ServingPoint, ...]:
    times = serving.times()
    assert times is not None
    return times.points


def test_the_tower_delays_the_first_token_and_its_tokens_lengthen_the_prompt(model: Path) -> None:
    with_image, text = _serve(model, **IMAGE), _serve(model, input=1000 + TOKENS)
    own, other = _points(with_image)[0], _points(text)[0]
    assert own.tower_seconds == pytest.approx(_tower())
    assert own.ttft.seconds - other.ttft.seconds == pytest.approx(_tower())
    assert own.tpot == other.tpot
    assert (with_image.input, with_image.context) == (text.input, text.context) == (1768, 1968)
    assert with_image.max_sequences() == text.max_sequences()
    assert with_image.prefill_macs == text.prefill_macs
    assert with_image.decode_macs == text.decode_macs


def test_several_images_pass_the_tower_one_by_one(model: Path) -> None:
    one, three = (_points(_serve(model, **{**IMAGE, "images": count}))[0] for count in (1, 3))
    assert 2.9 < three.tower_seconds / one.tower_seconds <= 3.0  # weights are read once
    assert _serve(model, **{**IMAGE, "images": 3}).tower_macs == 3 * _serve(model, **IMAGE).tower_macs


def test_towers_of_other_requests_delay_tokens(model: Path) -> None:
    own = _points(_serve(model, concurrency=8, **IMAGE))[0]
    other = _points(_serve(model, concurrency=8, input=1000 + TOKENS))[0]
    delay = 7 / 200 * _tower()
    assert own.tpot.seconds - other.tpot.seconds == pytest.approx(delay)
    assert own.causes["vision tower"] == pytest.approx(delay)
    assert own.causes["prefill"] == pytest.approx(other.causes["prefill"])
    assert "vision tower" not in other.causes
    assert sum(own.causes.values()) == pytest.approx(own.tpot.seconds)


def test_a_lower_bound_holds_for_engines_that_divide_the_tower(model: Path) -> None:
    assert _points(_serve(model, target="2xl40s/vllm", **IMAGE))[0].tower_seconds == pytest.approx(_tower(2))


def test_calibrated_times_with_images_have_no_interval(model: Path) -> None:
    times = _serve(model, target="h100/vllm", **IMAGE).times()
    assert times is not None
    assert times.calibration is not None
    assert times.caveats == ("no interval: images in prompts are not among the measurements",)
    assert times.points[0].ttft.low is times.points[0].tpot.high is None
    # 8.2 ms at 51 % of 494.7 T MACs per second for products and 45 % for attention, and floors of kernels.
    assert 7.2e-3 < times.points[0].tower_seconds < 10e-3


def test_a_draft_and_goals_have_the_tower(model: Path) -> None:
    draft = {"draft": model.with_name("qwen3-vl-8b.json"), "draft_tokens": 2, "acceptance": 0.5}
    own, other = (_points(_serve(model, **draft, **options))[0] for options in (IMAGE, {"input": 1768}))
    assert own.ttft.seconds - other.ttft.seconds == pytest.approx(_tower())
    rows = _serve(model, target="h100/vllm", tpot="30ms", **IMAGE).goal_rows()
    assert rows[0].point.tower_seconds > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"images": 1}, "give images and their size together: --images 1 --image-size 1024x768"),
        ({"image_size": "64x64"}, "give images and their size together"),
        ({"images": -1, "image_size": "64x64"}, "images: give a number from 1 to 10,000"),
        ({**IMAGE, "target": "h100/vllm", "rate": 1.0}, "images: give them without a rate"),
        ({**IMAGE, "target": "2xh100/vllm", "disaggregate": "1:1"}, "or disaggregated serving"),
        ({**IMAGE, "images": 10000}, r"7,681,000 .7,680,000 of images. . 200 tokens exceed the context"),
        ({**IMAGE, "input": "x"}, "input: give a number of tokens"),
    ],
)
def test_images_that_cannot_be_served_say_why(model: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SizeupError, match=message):
        _serve(model, **options)


def test_the_command_prints_images_and_the_tower(model: Path) -> None:
    command = ("llm", model, "-d", "l40s/vllm", "--in", "1000", "--images", "1", "--image-size", "1024x768")
    text = " ".join(run_command(*command).stdout.split())
    assert (
        "images 1 of 1,024 x 768 pixels: 3,072 patches and 768 tokens each, 768 of the 1,768 tokens" in text
    )
    assert "and 3.96 T in the vision tower, " in text
    assert "vision tower at least 10.9 ms of TTFT, for 1 image of a prompt" in text
    data = json.loads(run_command(*command, "--json").stdout)
    schema = json.loads((files("sizeup.serving.render") / "llm_schema.json").read_text())
    jsonschema.validate(data, schema)
    assert data["images"]["tower_macs"] == 1_978_524_499_968
    assert data["times"]["points"][0]["vision_tower_seconds"] == pytest.approx(_tower(), rel=1e-5)
    refused = run_command("llm", model.with_name("llama-3.1-8b.json"), *command[2:])
    assert refused.returncode != 0
    assert "llama-3.1-8b has no vision tower" in refused.stderr


def test_a_page_shows_images_and_the_tower(model: Path, tmp_path: Path) -> None:
    _serve(model, **IMAGE).save(tmp_path / "llm.html")
    page = (tmp_path / "llm.html").read_text("utf-8")
    assert "768 tokens each" in page
    assert "Vision tower: at least " in page
