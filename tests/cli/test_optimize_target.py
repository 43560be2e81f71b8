"""The figures of `sizeup optimize -d TARGET` are those of the target's kernels."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from cli.running import Run
from sizeup.formats import tflite
from sizeup.formats.tflite.write import ONLINE, rewrite

pytestmark = pytest.mark.extras
TARGET = ("-d", "nrf52840")


def _with_wasteful_plan(source: Path, out: Path) -> Path:
    """The file with a memory plan in which no two tensors share bytes."""
    offsets, end = [], 0
    for tensor in tflite.load(source).tensors:
        offsets.append(ONLINE if tensor.data is not None else end)
        end += 0 if tensor.data is not None else -(-(tensor.elements or 0) // 16) * 16
    out.write_bytes(rewrite(source.read_bytes(), offline_offsets=offsets))
    return out


def test_all_figures_are_of_the_kernels_of_the_target(run: Run, shared: Path, tmp_path: Path) -> None:
    model, out = shared / "models" / "mlperf_kws_int8.tflite", tmp_path / "out.tflite"
    result = json.loads(run("optimize", model, *TARGET, "-o", out, "--no-verify", "--json").out)
    memory = json.loads(run("analyze", model, *TARGET, "--json").out)["memory"]
    before = result["before"]
    assert before["arena_head_bytes"] == memory["arena_head_bytes"]
    assert before["arena_bytes"] == memory["arena_bytes"]
    assert (before["arena_tail_bytes_64"], before["arena_used_bytes_64"]) == (None, None)
    assert not result["arena_is_measured"]
    # With the scratch of CMSIS-NN the schedule needs more than the peak of the tensors alone.
    schedule = result["schedule"]
    assert schedule["lower_bound_bytes"] is None
    assert schedule["head_lower_bound_bytes"] <= result["after"]["arena_head_bytes"]


def test_a_stored_plan_that_is_dropped_is_named(run: Run, shared: Path, tmp_path: Path) -> None:
    model = _with_wasteful_plan(shared / "models" / "mlperf_kws_int8.tflite", tmp_path / "planned.tflite")
    out = tmp_path / "out.tflite"
    result = json.loads(run("optimize", model, *TARGET, "-o", out, "--no-verify", "--json").out)
    assert result["after"]["arena_bytes"] < result["before"]["arena_bytes"]
    assert all(offset == ONLINE for offset in tflite.load(out).offsets or ())
    assert any("memory plan stored in the file was dropped" in note for note in result["notes"])


def test_packing_has_one_increase_of_the_arena(run: Run, shared: Path, tmp_path: Path) -> None:
    model, out = shared / "models" / "mlperf_kws_int8.tflite", tmp_path / "out.tflite"
    options = ("--cluster", "16", "--pack", "--no-verify", "--no-reorder", "--no-plan")
    ended = run("optimize", model, *TARGET, "-o", out, *options)
    (row,) = [line for line in ended.out.splitlines() if line.strip().startswith("arena, cmsis-nn")]
    before, after = (int(size.replace(",", "")) for size in re.findall(r"([\d,]+) B", row))
    assert f"the arena is {after - before:,} B larger" in " ".join(ended.out.split())


@pytest.mark.parametrize("has_solver", [True, False])
def test_without_a_solver_no_search_is_said_to_have_ended(
    run: Run, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_solver: bool
) -> None:
    """First fit finds no smaller arena for this file; the solver does."""
    if not has_solver:
        monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    model, out = shared / "models" / "pmw_alexa.tflite", tmp_path / "out.tflite"
    ended = run("optimize", model, "-d", "stm32f446/tflm-cmsis-nn", "-o", out, "--no-verify")
    text = " ".join(ended.out.split())
    assert ("17,024 B" in text) == has_solver
    assert ("no change that reduces the arena was found without a solver on stm32f446" in text) != has_solver
    assert ("to search for a smaller memory plan: pip install 'sizeup[solve]'" in text) != has_solver
    assert "--search-limit" not in text
