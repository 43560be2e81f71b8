"""Files that come with a plan, or with graphs that nothing calls: what optimize makes of their arena."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tflite_micro")

from ai_edge_litert import schema_py_generated as schema

import sizeup
from formats.tflite.factory import File, Subgraph
from micro_interpreter import measure

pytestmark = pytest.mark.extras


def _relus(graph: Subgraph, count: int, shape: tuple[int, ...], name: str = "RELU") -> None:
    tensors = [graph.tensor(f"t{number}", shape) for number in range(count + 1)]
    for source, result in pairwise(tensors):
        graph.op(name, [source], [result])
    graph.ends(tensors[:1], tensors[-1:])


def _planned(path: Path, offsets: Sequence[int], name: str = "RELU") -> Path:
    file = File()
    _relus(file.main, 3, (1, 8, 8, 4), name)
    entry = schema.MetadataT()
    entry.name = "OfflineMemoryAllocation"
    entry.buffer = file.buffer(np.array([1, 0, len(offsets), *offsets], np.int32))
    file.model.metadata = [entry]
    path.write_bytes(file.pack())
    return path


WASTEFUL = (0, 100_000, 200_000, 300_000)


@pytest.mark.parametrize("verify", [True, False])
def test_a_wasteful_plan_is_replaced(tmp_path: Path, verify: bool) -> None:
    """Two tensors of 1,024 bytes are in use at once."""
    source, target = _planned(tmp_path / "given.tflite", WASTEFUL), tmp_path / "made.tflite"
    optimization = sizeup.optimize(source, target, verify=verify)
    before, after = measure([source, target])
    assert (before.head, after.head) == (301_024, 2_048)
    assert optimization.before.used is not None
    assert optimization.after.used is not None
    assert (optimization.before.used.head_bytes, optimization.after.used.head_bytes) == (301_024, 2_048)


def test_a_plan_that_nothing_betters_stays(tmp_path: Path) -> None:
    source, target = _planned(tmp_path / "given.tflite", (0, 1_024, 0, 1_024)), tmp_path / "made.tflite"
    assert not sizeup.optimize(source, target).changed
    assert target.read_bytes() == source.read_bytes()


def test_a_plan_stays_without_plan_option(tmp_path: Path) -> None:
    source, target = _planned(tmp_path / "given.tflite", WASTEFUL), tmp_path / "made.tflite"
    assert not sizeup.optimize(source, target, plan=False).changed


def test_a_plan_that_unknown_kernels_may_rely_on_stays(tmp_path: Path) -> None:
    source, target = _planned(tmp_path / "given.tflite", WASTEFUL, "NobodyKnows"), tmp_path / "made.tflite"
    assert not sizeup.optimize(source, target, verify=False).changed


@pytest.mark.parametrize("verify", [True, False])
def test_graphs_that_nothing_calls_are_in_the_arena(tmp_path: Path, verify: bool) -> None:
    file = File()
    _relus(file.main, 3, (1, 8, 8, 4))
    _relus(file.subgraph("another entry"), 2, (1, 32, 32, 4))
    source, target = tmp_path / "given.tflite", tmp_path / "made.tflite"
    source.write_bytes(file.pack())
    optimization = sizeup.optimize(source, target, verify=verify)
    before, after = measure([source, target])
    assert optimization.before.used is not None
    assert optimization.after.used is not None
    assert (
        (optimization.before.used.head_bytes, optimization.before.used.tail_bytes)
        == before[:2]
        == (49_152, 1_328)
    )
    assert (optimization.after.used.head_bytes, optimization.after.used.tail_bytes) == after[:2]
