"""What `sizeup optimize` says, in words that are true and right in number."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sizeup.cli import app
from sizeup.memory.tflm.overlap import LABEL
from sizeup.render.console import optimize as rewriting
from sizeup.rewrite import Footprint, Optimization, Verification


def shown(result: Optimization) -> str:
    text = io.StringIO()
    rewriting.render(result, Console(file=text, width=200))
    return " ".join(text.getvalue().split())


def result(verification: Verification | None = None, **fields: Any) -> Optimization:
    size = Footprint(10, 100)
    return Optimization("net", "tflite", Path("out"), size, size, True, verification=verification, **fields)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"overlaps": 1, "kernels": LABEL, "planned": True}, "overlap 1 output over a dying input: TFLite"),
        ({"overlaps": 2, "kernels": LABEL, "planned": True}, "overlap 2 outputs over dying inputs: TFLite"),
        ({"overlaps": 1, "kernels": "others"}, "1 tensor over others in use at once, by the plan that the"),
        ({"clustered_weights": 1, "cluster_values": 16}, "cluster 1 weight has at most 16 values"),
        ({"clustered_weights": 2, "cluster_values": 16}, "cluster 2 weights have at most 16 values"),
        ({"packed_weights": 1}, "pack 1 weight stored as a code-book; only"),
        ({"packed_weights": 2}, "pack 2 weights stored as code-books; only"),
        ({"moved_ops": 2, "ops": 3, "order_status": "optimal"}, "2 of 3 operators moved"),
    ],
)
def test_one_is_one(fields: dict[str, Any], words: str) -> None:
    assert words in shown(result(**fields))


def test_one_output_for_all_is_weak_evidence() -> None:
    text = shown(result(Verification("TFLite Micro", 6, 1)))
    assert "equal on 6 random inputs in TFLite Micro with 1 output for all, which is weak evidence" in text
    text = shown(result(Verification("TFLite Micro", 6, 1, None, 5)))
    assert text.count("weak evidence") == 1
    assert "with random weights equal too, with 5 different outputs" in text
    assert "weak" not in shown(result(Verification("TFLite Micro", 6, 2)))


def told(*arguments: str | Path) -> str:
    found = CliRunner().invoke(app, ["optimize", *map(str, arguments)], env={"COLUMNS": "200"})
    assert found.exit_code == 0, found.output
    return " ".join(found.output.split())


@pytest.mark.extras
def test_what_nobody_runs_is_not_said_to_need_nothing_less(shared: Path, tmp_path: Path) -> None:
    text = told(shared / "models/tflm_person_detect_vela.tflite", "-o", tmp_path / "out.tflite")
    assert text.endswith("the original: nothing was changed, because nothing could be verified")
    assert "nothing needs less" not in text


@pytest.mark.extras
def test_overlap_without_gain_is_told(shared: Path, tmp_path: Path) -> None:
    words = "--overlap brought nothing: no plan with overlaps needs less arena"
    hello, kws = (shared / f"models/{name}.tflite" for name in ("tflm_hello_int8", "mlperf_kws_int8"))
    assert words in told(hello, "-o", tmp_path / "out.tflite", "--overlap")
    assert words not in told(hello, "-o", tmp_path / "out.tflite")
    assert "brought nothing" not in told(kws, "-o", tmp_path / "out.tflite", "--overlap")


@pytest.mark.extras
def test_an_arena_that_code_books_make_larger_is_told(shared: Path, tmp_path: Path) -> None:
    """24,272 B before and 29,616 B after, both measured in the interpreter."""
    kws, out = shared / "models/mlperf_kws_int8.tflite", tmp_path / "out.tflite"
    words = "the arena is 5,344 B larger, for code-books are decoded into it while the model runs"
    text = told(kws, "-o", out, "--cluster", "16", "--pack")
    assert words in text
    assert "arena used, 64-bit 24,272 B 29,616 B" in text
    assert "larger" not in told(kws, "-o", out, "--cluster", "16")
