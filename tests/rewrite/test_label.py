"""A plan with overlaps is called so by whoever passes it on, not only by whoever made it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sizeup
from micro_interpreter import measure
from sizeup.cli import app
from sizeup.formats.tflite.write import rewrite
from sizeup.memory import as_shipped
from sizeup.memory.tflm.overlap import FOREIGN_LABEL, LABEL
from sizeup.rewrite import Optimization

pytestmark = pytest.mark.extras

OVERLAPPED = ("mlperf_kws_int8", "mlperf_vww96_int8", "tflm_micro_speech")


def told(*arguments: str | Path) -> tuple[str, dict[str, Any]]:
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
    made = sizeup.optimize(shared / "models" / f"{request.param}.tflite", out, overlap=True, verify=False)
    assert made.overlaps > 0
    assert made.planned
    out.with_suffix(".overlaps").write_text(str(made.overlaps))
    return out


def test_reading_it_back_counts_the_same_overlaps(overlapped: Path, shared: Path) -> None:
    found = as_shipped(sizeup.load(overlapped))
    assert found is not None
    # Of the very run that made it: two plans of the same height may overlap elsewhere.
    assert found.overlapping == int(overlapped.with_suffix(".overlaps").read_text()) > 0
    assert found.kernels == LABEL
    plain = as_shipped(sizeup.load(shared / "models" / overlapped.name))
    assert plain is not None
    assert (plain.overlapping, plain.kernels) == (0, None)


@pytest.mark.parametrize("flags", [(), ("--no-plan",), ("--cluster", "64"), ("--no-verify",), ("--overlap",)])
def test_the_label_stays_for_as_long_as_the_plan_does(
    flags: tuple[str, ...], overlapped: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.tflite"
    text, data = told(overlapped, "-o", out, *flags)
    assert sizeup.load(out).offsets == sizeup.load(overlapped).offsets
    assert f"by the plan that the file came with: {LABEL}" in text
    assert data["plan"]["kernels"] == LABEL
    assert data["plan"]["overlaps"] > 0
    assert data["plan"]["written"] is False
    assert ("--overlap brought nothing" in text) == (flags == ("--overlap",))


def test_a_plan_without_overlaps_has_no_label(shared: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.tflite", tmp_path / "second.tflite"
    made = sizeup.optimize(shared / "models/mlperf_vww96_int8.tflite", first, verify=False)
    assert made.planned
    text, data = told(first, "-o", second)
    assert (data["plan"]["overlaps"], data["plan"]["kernels"]) == (0, None)
    assert LABEL not in text


def test_overlaps_that_no_kernel_is_known_to_bear_are_not_said_to_be_borne(
    shared: Path, tmp_path: Path
) -> None:
    source, planned = shared / "models/mlperf_kws_int8.tflite", tmp_path / "planned.tflite"
    graph = sizeup.load(source)
    everything_at_zero = [-1 if each.data is not None else 0 for each in graph.tensors]
    planned.write_bytes(rewrite(source.read_bytes(), offline_offsets=everything_at_zero))
    text, data = told(planned, "-o", tmp_path / "out.tflite", "--no-plan")
    assert data["plan"]["kernels"] == FOREIGN_LABEL
    assert FOREIGN_LABEL in text


def test_weights_are_packed_under_a_plan_too(overlapped: Path, tmp_path: Path) -> None:
    """The tensors that decoding adds have no place in the plan that the file came with."""
    out = tmp_path / "out.tflite"
    made: Optimization = sizeup.optimize(overlapped, out, cluster=16, pack=True, plan=False, reorder=False)
    assert made.packed_weights > 0
    assert made.kernels == LABEL
    found = measure([out])[0]
    assert found.failure == ""
    assert made.after.used is not None
    assert made.after.used.total_bytes == found.head + found.tail
    assert not any("taken back" in note for note in made.notes)
