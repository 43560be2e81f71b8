"""Formulas and traffic patterns shared by several families."""

from __future__ import annotations

from sizeup.graph import Dim
from sizeup.ops.cost_rule import Call, Formula, Traffic


def per_output(operations: int = 1) -> Formula:
    """`operations` per element of the first output."""

    def formula(call: Call) -> Dim:
        return operations * call.output.elements

    return formula


def per_input(operations: int = 1) -> Formula:
    """`operations` per element of the first input."""

    def formula(call: Call) -> Dim:
        return operations * call.input(0).elements

    return formula


def between_inputs(call: Call) -> Dim:
    """n - 1 operations per output element for n inputs."""
    return (sum(value is not None for value in call.inputs) - 1) * call.output.elements


def bias_additions(index: int) -> Formula:
    """One addition per output element if the bias, the input at `index`, is present."""

    def formula(call: Call) -> Dim:
        return call.output.elements if call.has_input(index) else 0

    return formula


def reads_first(call: Call) -> list[Dim]:
    """Only the first input is read; of the others only the dtype or the shape is used."""
    return [call.input(0).elements, *[0] * (len(call.inputs) - 1)]


def reads_nothing(call: Call) -> list[Dim]:
    """No input is read: only their shapes are used."""
    return [0] * len(call.inputs)


def writes_nothing(call: Call) -> list[Dim]:
    """Nothing is written: the output aliases existing memory."""
    return [0] * len(call.outputs)


def reads_output_size(source: int = 0) -> Traffic:
    """Reads as many elements of the input at `source` as it writes, and all of the other inputs."""

    def traffic(call: Call) -> list[Dim]:
        moved = sum(output.elements for output in call.outputs)
        return [
            0 if value is None else moved if index == source else value.elements
            for index, value in enumerate(call.inputs)
        ]

    return traffic
