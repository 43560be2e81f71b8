"""Every row of the table of kernels against the real interpreter."""

from __future__ import annotations

import sys
from importlib.resources import files

import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("tflite_micro")

from micro_interpreter import Measured, measure
from micro_kernels import CASES, ELSEWHERE, SIZED, Case
from sizeup.backends.tflm import arena
from sizeup.backends.tflm.instructions import formulas
from sizeup.backends.tflm.kernel import Kernel
from sizeup.backends.tflm.kernels import KERNELS
from sizeup.backends.tflm.layout import PYTHON_PACKAGE
from sizeup.backends.tflm.lowerings import LOWERINGS
from sizeup.formats import tflite
from sizeup.ops import cost_rules, op_kind_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.fixture(scope="module")
def measured() -> dict[str, Measured]:
    return dict(zip((case.label for case in CASES), measure([case.pack() for case in CASES]), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_the_kernel_takes_what_the_interpreter_reports(case: Case, measured: dict[str, Measured]) -> None:
    real = measured[case.label]
    assert not real.failure
    memory = arena(tflite.load(case.pack()), firmware=PYTHON_PACKAGE)
    assert (memory.head_bytes, memory.tail_bytes_64) == (real.head, real.tail)


def test_every_row_of_the_table_is_shown() -> None:
    assert {case.name for case in CASES} | ELSEWHERE == SIZED
    assert not {case.name for case in CASES} & ELSEWHERE
    assert len({case.label for case in CASES}) == len(CASES)


def test_every_other_table_is_of_operators_with_a_kernel() -> None:
    """Code sizes, formulas of instructions, and what converters write."""
    sizes = tomllib.loads((files("sizeup.backends.tflm") / "code_sizes.toml").read_text("utf-8"))
    named = {name for table in sizes.values() if isinstance(table, dict) for name in table["operators"]}
    named |= {variant.split()[0] for variants in formulas().values() for variant in variants}
    for row in LOWERINGS.values():
        named |= {*row.composed_of, *row.alternatives, *row.sequence, *row.step}
    assert len(named) > 70
    assert named <= KERNELS.keys()
    assert LOWERINGS.keys() <= {rule.kind for rule in cost_rules()}


def test_every_kernel_of_a_builtin_operator_is_that_of_an_op_kind() -> None:
    portable = {name for name, kernel in KERNELS.items() if kernel.is_portable}
    assert len(portable) > 80
    assert {name for name in portable if op_kind_of("tflite", name) is None} == set()


def test_a_row_without_what_every_kernel_has_is_no_row() -> None:
    with pytest.raises(TypeError, match="missing 2 required positional arguments: 'memory' and 'rules'"):
        Kernel("MADE_UP", "1")  # type: ignore[call-arg]
