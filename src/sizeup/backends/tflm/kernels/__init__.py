"""What is known of TFLite Micro's kernels: one row per operator, in a module per family.

The values are those of the reference kernels in tensorflow/tflite-micro. For 64 bits, tests compare every row
with the interpreter of PyPI's `tflite-micro`. The split of a structure into pointers and numbers, which the
32-bit sizes depend on, is verified by emulated boards for the operators that they ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from sizeup.backends.tflm.kernel import Kernel
from sizeup.backends.tflm.kernels import arithmetic, control, data_movement, products

ETHOS_U = control.ETHOS_U


def _table() -> dict[str, Kernel]:
    rows = [*chain(products.KERNELS, arithmetic.KERNELS, data_movement.KERNELS, control.KERNELS)]
    table = {kernel.name: kernel for kernel in rows}
    assert len(table) == len(rows), "two rows have one name"
    return table


KERNELS: Mapping[str, Kernel] = _table()
"""All kernels by operator: their name in the format, or the code of a custom operator."""

RESOLVED = frozenset(name for name, kernel in KERNELS.items() if not kernel.needs_npu)
"""Operators that the interpreter has a kernel for."""
