"""Counting a graph: a row per operator, joined into columns."""

from __future__ import annotations

from array import array

import numpy as np

from sizeup.cost.columns import AccessColumns, Cost
from sizeup.cost.parameters import parameter_columns
from sizeup.cost.rows import row_of
from sizeup.graph import Graph, without_collection


def count(graph: Graph) -> Cost:
    """Count every operator of a graph by the rule of its kind."""
    with without_collection():
        return _count(graph)


def _count(graph: Graph) -> Cost:
    macs, elementwise, known = array("q"), array("q"), array("b")
    reads, writes = AccessColumns(), AccessColumns()
    reasons: dict[int, str] = {}
    for index, op in enumerate(graph.ops):
        row = row_of(graph, op)
        macs.append(row.macs)
        elementwise.append(row.elementwise)
        known.append(row.reason is None)
        reads.add(row.reads)
        writes.add(row.writes)
        if row.reason is not None:
            reasons[index] = row.reason
    params, parameters, stored_bytes = parameter_columns(graph)
    return Cost(
        graph,
        np.array(macs, np.int64),
        np.array(elementwise, np.int64),
        params,
        np.array(known, np.bool_),
        reasons,
        reads.freeze(),
        writes.freeze(),
        parameters,
        stored_bytes,
    )
