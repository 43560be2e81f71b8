"""Reading and counting against the bare object read of the same file, as a ratio of CPU times."""

from __future__ import annotations

from pathlib import Path

import pytest
from ai_edge_litert import schema_py_generated as schema

from sizeup.cost import count
from sizeup.formats import tflite
from timing import cpu_seconds


@pytest.mark.alone
@pytest.mark.parametrize("name", ["mlperf_kws_int8", "mp_hand_landmark_full", "pmw_alexa", "te_persondet"])
def test_reading_and_counting_takes_at_most_one_and_a_half_bare_reads(shared: Path, name: str) -> None:
    path = shared / "models" / f"{name}.tflite"
    ours, bare = [], []
    for _ in range(7):
        ours.append(cpu_seconds(lambda: count(tflite.load(path))))
        bare.append(cpu_seconds(lambda: schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes()))))
    assert min(ours) <= 1.5 * min(bare)
