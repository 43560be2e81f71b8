"""Graphs as TFLite Micro prepares and runs them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory.memory_graphs import BYTE, branches
from sizeup.backends.tflm.as_run import graph_as_run
from sizeup.backends.tflm.layout import FIRMWARE
from sizeup.backends.tflm.subgraphs import subgraphs
from sizeup.errors import Incomplete
from sizeup.graph import Constant, GraphBuilder
from sizeup.memory import buffer_liveness


def test_what_is_derived_from_constants_takes_memory_and_constants_do_not() -> None:
    builder = GraphBuilder("derived", "tflite")
    x, y = builder.input("x", (10,), BYTE), builder.tensor("y", (10,), BYTE)
    weights = builder.tensor("weights", (1000,), BYTE, Constant("parameter"))
    derived = builder.tensor("derived", (100,), BYTE, Constant("derived"))
    builder.op("neg", [weights], [derived], source="NEG")
    builder.op("add", [x, derived], [y], source="ADD")
    builder.outputs.append(y)
    graph = builder.freeze()
    assert buffer_liveness(graph).live_bytes().tolist() == [10, 20]
    assert buffer_liveness(graph_as_run(graph, FIRMWARE)).live_bytes().tolist() == [110, 120]


@pytest.mark.parametrize(("name", "shown"), [("branches", "branches"), ("", "graph")])
def test_a_file_with_a_graph_that_cannot_be_read_is_named(name: str, shown: str) -> None:
    with pytest.raises(Incomplete, match=f"^{shown}: another graph of the file"):
        subgraphs(replace(branches(), name=name, other_graphs=None))
