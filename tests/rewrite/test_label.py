"""A plan with overlaps is labeled in every later result, not only in the first one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sizeup
from micro_interpreter import measure
from sizeup.backends.tflm.file_arena import tflm_arena
from sizeup.backends.tflm.overlap import LABEL
from sizeup.cli import app
from sizeup.formats.tflite.write import rewrite
from sizeup.rewrite import Optimization

pytestmark = pytest.mark.extras

OVERLAPPED = ("mlperf_kws_int8", "mlperf_vww96_int8", "tflm_micro_speech")


def optimize_output(*arguments: str | Path) -> tuple[str, dict[str, Any]]:
    """What the verb shows, and its data."""
    words = ["optimize", *map(str, arguments)]
    shown = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    data = CliRunner().invoke(app, [*words, "--json"])
    return " ".join(shown.output.split()), json.loads(data.stdout)


@pytest.fixture(scope="module", params=OVERLAPPED)
def overlapped(
    request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("label") / f"{request.param}.tflite"
    optimization = sizeup.optimize(
        shared / "models" / f"{request.param}.tflite", out, overlap=True, verify=False
    )
    assert optimization.overlaps > 0
    assert optimization.has_new_plan
    out.with_suffix(".overlaps").write_text(str(optimization.overlaps))
    return out


def test_reading_it_back_counts_the_same_overlaps(overlapped: Path, shared: Path) -> None:
    memory = tflm_arena(sizeup.load(overlapped))
    assert memory is not None
    # Of the very run that made it: two plans of the same height may overlap elsewhere.
    assert memory.overlapping_tensors == int(overlapped.with_suffix(".overlaps").read_text()) > 0
    assert memory.valid_kernels == LABEL
    plain = tflm_arena(sizeup.load(shared / "models" / overlapped.name))
    assert plain is not None
    assert (plain.overlapping_tensors, plain.valid_kernels) == (0, None)


@pytest.mark.parametrize("flags", [(), ("--no-plan",), ("--cluster", "64"), ("--no-verify",), ("--overlap",)])
def test_the_label_stays_for_as_long_as_the_plan_does(
    flags: tuple[str, ...], overlapped: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.tflite"
    text, data = optimize_output(overlapped, "-o", out, *flags)
    assert sizeup.load(out).offsets == sizeup.load(overlapped).offsets
    assert f"in the plan stored in the original file: {LABEL}" in text
    assert data["plan"]["kernels"] == LABEL
    assert data["plan"]["overlaps"] > 0
    assert data["plan"]["written"] is False
    assert ("--overlap had no effect" in text) == (flags == ("--overlap",))


def test_a_plan_without_overlaps_has_no_label(shared: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.tflite", tmp_path / "second.tflite"
    optimization = sizeup.optimize(shared / "models/mlperf_vww96_int8.tflite", first, verify=False)
    assert optimization.has_new_plan
    text, data = optimize_output(first, "-o", second)
    assert (data["plan"]["overlaps"], data["plan"]["kernels"]) == (0, None)
    assert LABEL not in text


def test_a_plan_with_overlaps_that_no_kernel_bears_is_dropped(shared: Path, tmp_path: Path) -> None:
    source, planned = shared / "models/mlperf_kws_int8.tflite", tmp_path / "planned.tflite"
    graph = sizeup.load(source)
    everything_at_zero = [-1 if each.data is not None else 0 for each in graph.tensors]
    planned.write_bytes(rewrite(source.read_bytes(), offline_offsets=everything_at_zero))
    text, data = optimize_output(planned, "-o", tmp_path / "out.tflite", "--no-plan")
    assert (data["plan"]["overlaps"], data["plan"]["kernels"]) == (0, None)
    assert "the memory plan stored in the file was dropped" in text
    memory = tflm_arena(sizeup.load(tmp_path / "out.tflite"))
    assert memory == tflm_arena(sizeup.load(source))


def test_weights_are_packed_under_a_plan_too(overlapped: Path, tmp_path: Path) -> None:
    """The tensors that decoding adds have no place in the plan that the file came with."""
    out = tmp_path / "out.tflite"
    optimization: Optimization = sizeup.optimize(
        overlapped, out, cluster=16, pack=True, plan=False, reorder=False
    )
    assert optimization.packed_weights > 0
    assert optimization.valid_kernels == LABEL
    memory = measure([out])[0]
    assert memory.failure == ""
    assert optimization.after.used is not None
    assert optimization.after.used.total_bytes == memory.head + memory.tail
    assert not any("reverted" in note for note in optimization.notes)
