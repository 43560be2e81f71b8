"""The messages of `sizeup optimize` are true and use the right singular or plural."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sizeup.backends.tflm.overlap import LABEL
from sizeup.cli import app
from sizeup.render.console import optimize as rewriting
from sizeup.rewrite import Deviation, Footprint, Optimization, Verification


def shown(result: Optimization) -> str:
    text = io.StringIO()
    rewriting.render(result, Console(file=text, width=200))
    return " ".join(text.getvalue().split())


def result(verification: Verification | None = None, **fields: Any) -> Optimization:
    size = Footprint(10, 100)
    return Optimization("net", "tflite", Path("out"), size, size, True, verification=verification, **fields)


NEW_PLAN = {"valid_kernels": LABEL, "has_new_plan": True}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"overlaps": 1, **NEW_PLAN}, "overlap 1 output with an input that is no longer needed: TFLite"),
        ({"overlaps": 2, **NEW_PLAN}, "overlap 2 outputs with inputs that are no longer needed"),
        (
            {"overlaps": 1, "valid_kernels": "others"},
            "1 tensor with other live tensors, in the plan stored in",
        ),
        (
            {"clustered_weights": 1, "cluster_values": 16},
            "cluster 1 weight tensor has at most 16 distinct values",
        ),
        (
            {"clustered_weights": 2, "cluster_values": 16},
            "cluster 2 weight tensors have at most 16 distinct values",
        ),
        ({"packed_weights": 1}, "pack 1 weight tensor stored as a code-book; only"),
        ({"packed_weights": 2}, "pack 2 weight tensors stored as code-books; only"),
        ({"moved_ops": 2, "ops": 3, "schedule_status": "optimal"}, "2 of 3 operators moved"),
    ],
)
def test_one_is_one(fields: dict[str, Any], words: str) -> None:
    assert words in shown(result(**fields))


def test_one_output_for_all_is_weak_evidence() -> None:
    text = shown(result(Verification("TFLite Micro", 6, 1)))
    assert "equal on 6 random inputs in TFLite Micro with the same output each time, which is weak" in text
    text = shown(result(Verification("TFLite Micro", 6, 1, None, 5)))
    assert text.count("weak evidence") == 1
    assert "also equal with random weights, with 5 different outputs" in text
    assert "weak" not in shown(result(Verification("TFLite Micro", 6, 2)))


def test_only_equal_outputs_are_verified() -> None:
    text = shown(result(Verification("TFLite Micro", 6, 2, Deviation(246, 3.5, 255))))
    assert "outputs changed by at most 246, on average 3.5, of a range of 255, on 6 random inputs in" in text
    assert "verified" not in text
    assert "verified outputs equal on 6 random" in shown(result(Verification("TFLite Micro", 6, 2)))


def optimize_output(*arguments: str | Path) -> str:
    run = CliRunner().invoke(app, ["optimize", *map(str, arguments)], env={"COLUMNS": "200"})
    assert run.exit_code == 0, run.output
    return " ".join(run.output.split())


@pytest.mark.extras
def test_an_unrunnable_model_is_not_reported_as_optimal(shared: Path, tmp_path: Path) -> None:
    text = optimize_output(shared / "models/tflm_person_detect_vela.tflite", "-o", tmp_path / "out.tflite")
    assert text.endswith("a copy of the original: no change could be verified")
    assert "no smaller version" not in text


@pytest.mark.extras
def test_overlap_without_gain_is_reported(shared: Path, tmp_path: Path) -> None:
    words = "--overlap had no effect: no plan with overlaps reduces the arena"
    hello, kws = (shared / f"models/{name}.tflite" for name in ("tflm_hello_int8", "mlperf_kws_int8"))
    assert words in optimize_output(hello, "-o", tmp_path / "out.tflite", "--overlap")
    assert words not in optimize_output(hello, "-o", tmp_path / "out.tflite")
    assert "had no effect" not in optimize_output(kws, "-o", tmp_path / "out.tflite", "--overlap")


@pytest.mark.extras
def test_an_arena_that_code_books_make_larger_is_reported(shared: Path, tmp_path: Path) -> None:
    """24,272 B before and 29,616 B after, both measured in the interpreter."""
    kws, out = shared / "models/mlperf_kws_int8.tflite", tmp_path / "out.tflite"
    words = "the arena is 5,344 B larger, because code-books are decoded into it at run time"
    text = optimize_output(kws, "-o", out, "--cluster", "16", "--pack")
    assert words in text
    assert "arena used, 64-bit 24,272 B 29,616 B" in text
    assert "larger" not in optimize_output(kws, "-o", out, "--cluster", "16")
