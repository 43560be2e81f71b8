"""Every row of the table of kernels against the real interpreter."""

from __future__ import annotations

import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("tflite_micro")

from micro_interpreter import Measured, measure
from micro_kernels import CASES, Case
from sizeup.backends.tflm import arena
from sizeup.backends.tflm.kernels import KERNELS
from sizeup.backends.tflm.layout import PYTHON_PACKAGE
from sizeup.formats import tflite

# Operators that need more than one, or special options: covered by real files and other tests.
ELSEWHERE = {
    *("IF", "WHILE", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"),
    *(name for name, kernel in KERNELS.items() if name.startswith("Signal") and kernel.memory is not None),
}


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
    sized = {name for name, kernel in KERNELS.items() if kernel.memory is not None and not kernel.needs_npu}
    assert {case.name for case in CASES} | ELSEWHERE == sized
    assert len({case.label for case in CASES}) == len(CASES)
