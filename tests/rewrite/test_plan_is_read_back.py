"""A plan that was written into a file is what the next report on that file speaks of."""

from __future__ import annotations

from pathlib import Path

import pytest

import sizeup


@pytest.mark.extras
def test_the_arena_of_a_planned_file_is_that_of_its_plan(shared: Path, tmp_path: Path) -> None:
    source, target = shared / "models" / "mlperf_vww96_int8.tflite", tmp_path / "planned.tflite"
    sizeup.optimize(source, target, verify=False)
    before, after = (sizeup.analyze(path).memory.arena for path in (source, target))
    assert before is not None
    assert after is not None
    # What TFLite Micro's own interpreter reports for the two files.
    assert (before.head_bytes, after.head_bytes) == (73_728, 55_296)
    assert not sizeup.load(source).offsets
    assert len(sizeup.load(target).offsets) == len(sizeup.load(target).tensors)
