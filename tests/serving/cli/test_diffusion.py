"""`sizeup llm` of diffusion transformers as its users meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import published_configs
import sizeup
from cli.running import run_command as run


@pytest.fixture(scope="module")
def flux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    published_configs.make(folder)
    return folder / "flux.1-dev.json"


def test_the_time_is_printed_as_a_lower_bound(flux: Path) -> None:
    done = run("llm", flux, "-d", "h100", "--steps", "50", "--guidance")
    assert (done.returncode, done.stderr) == (3, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert shown[0] == "flux.1-dev on h100-sxm"
    assert shown[1].startswith("fits undetermined: weights take 22.2 GiB of the 80.0 GiB")
    assert "weights 11.9 G parameters, 22.2 GiB" in shown
    assert "FLOPs 149 T per step of 2 inferences, 7.44 P per image of 50 steps" in shown
    assert "time at least 7.52 s per image, 150 ms per step (lower bound)" in shown


def test_what_does_not_fit_or_has_no_rate_is_stated(flux: Path) -> None:
    assert "no: weights take 22.2 GiB, more than the" in run("llm", flux, "-d", "t4").stdout
    assert "unknown: no peak rate of 16-bit" in run("llm", flux, "-d", "core-ultra-7-258v").stdout


def test_json_is_printed_and_written(flux: Path, tmp_path: Path) -> None:
    file = tmp_path / "image.json"
    done = run("llm", flux, "-d", "h100", "--json", "-o", file)
    content = json.loads(done.stdout)
    assert content == json.loads(file.read_text("utf-8"))
    assert content["model"]["parameters"] == 11_901_408_320
    assert content["image"] == {"width": 1024, "height": 1024, "tokens": 4096}
    assert content["fits"] == "undetermined"
    assert content["image_macs"] == 28 * content["step_macs"]
    assert content["least_image_seconds"] == pytest.approx(28 * content["least_step_seconds"])


def test_other_files_and_commands_are_refused_with_what_to_use(flux: Path) -> None:
    done = run("llm", flux, "-d", "h100", "-o", "image.html")
    assert (done.returncode, done.stdout) == (2, "")
    assert "a diffusion estimate is written as .json" in done.stderr
    done = run("check", flux, "-d", "h100")
    assert (done.returncode, f"type: sizeup llm {flux} -d h100" in done.stderr) == (2, True)
    done = run("diffusion", flux, "-d", "h100")
    assert (done.returncode, "type: sizeup llm CONFIG -d TARGET" in done.stderr) == (2, True)
    for options, message in (
        (("--kv", "fp8"), "a diffusion transformer has no kv"),
        (("--concurrency", "2"), "a diffusion transformer has no concurrency"),
    ):
        done = run("llm", flux, "-d", "h100", *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
    done = run("llm", flux.with_name("llama-2-7b.json"), "-d", "h100", "--guidance")
    assert (done.returncode, done.stdout) == (2, "")
    assert "are of diffusion transformers" in done.stderr


def test_python_returns_an_image_if_steps_are_given(flux: Path) -> None:
    with pytest.raises(sizeup.SizeupError, match="give the denoising steps of an image"):
        sizeup.llm(flux, target="h100")
    image = sizeup.llm(flux, target="t4", steps=2, guidance=True)
    assert isinstance(image, sizeup.Diffusion)
    assert (image.steps, image.inferences, image.verdict) == (2, 2, "no")
    with pytest.raises(sizeup.SizeupError, match="steps, guidance and text tokens"):
        sizeup.llm(flux.with_name("llama-2-7b.json"), target="h100", steps=2)
