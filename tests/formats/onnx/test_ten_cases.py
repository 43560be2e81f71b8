"""The ten small networks of the known answers, through both of torch's exporters."""

from __future__ import annotations

import pytest

from cases import BY_NAME, WITHOUT_CUSTOM, Case
from formats.onnx.exporting import by_export, by_tracing
from formats.onnx.making import count
from sizeup import cost


def check(counted: cost.Cost, case: Case, params: int | None = None) -> None:
    assert counted.known.all(), counted.reasons
    assert counted.total_macs == case.macs
    assert counted.total_params == (case.params if params is None else params)


@pytest.mark.parametrize("optimize", [True, False], ids=["optimized", "as_translated"])
@pytest.mark.parametrize("case", WITHOUT_CUSTOM, ids=lambda case: case.name)
def test_case_is_exact_through_the_newer_exporter(case: Case, optimize: bool) -> None:
    check(count(by_export(case.make(), case.inputs(), optimize=optimize)), case)


@pytest.mark.parametrize("case", WITHOUT_CUSTOM, ids=lambda case: case.name)
def test_case_is_exact_through_the_older_exporter(case: Case) -> None:
    # Folding a transposed copy of the shared table would really store it a second time.
    check(count(by_tracing(case.make(), case.inputs(), do_constant_folding=case.name != "tied_embed")), case)


def test_table_that_the_exporter_stores_twice_counts_twice() -> None:
    case = BY_NAME["tied_embed"]
    check(count(by_tracing(case.make(), case.inputs())), case, 2 * case.params)


@pytest.mark.parametrize("exporter", [by_export, by_tracing])
def test_modules_are_those_of_the_network(exporter: object) -> None:
    assert callable(exporter)
    case = BY_NAME["attn_matmul"]
    graph = count(exporter(case.make(), case.inputs())).graph
    scopes = {op.scope for op in graph.ops if op.kind == "matmul"}
    assert scopes == {"qkv", "", "out"}
