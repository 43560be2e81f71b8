"""Formulas and traffic patterns that several families share."""

from __future__ import annotations

from sizeup.graph import Dim
from sizeup.ops.rule import Call, Formula, Traffic


def per_output(operations: int = 1) -> Formula:
    """So many operations for each number of the first output."""

    def formula(call: Call) -> Dim:
        return operations * call.output.elements

    return formula


def per_input(operations: int = 1) -> Formula:
    """So many operations for each number of the first input."""

    def formula(call: Call) -> Dim:
        return operations * call.input(0).elements

    return formula


def between_inputs(call: Call) -> Dim:
    """One operation for each further input and output number: n inputs are joined in n - 1 steps."""
    return (sum(value is not None for value in call.inputs) - 1) * call.output.elements


def bias_additions(index: int) -> Formula:
    """One addition for each output number where the bias, the input at `index`, is given."""

    def formula(call: Call) -> Dim:
        return call.output.elements if call.given(index) else 0

    return formula


def reads_first(call: Call) -> list[Dim]:
    """The first input alone: of the others only the type or the shape matters."""
    return [call.input(0).elements, *[0] * (len(call.inputs) - 1)]


def reads_nothing(call: Call) -> list[Dim]:
    """Only the shapes of the inputs matter, not their content."""
    return [0] * len(call.inputs)


def writes_nothing(call: Call) -> list[Dim]:
    """The output is bytes that exist already."""
    return [0] * len(call.outputs)


def reads_what_it_writes(source: int = 0) -> Traffic:
    """Of the input at `source` only as many numbers as come out; of the others everything."""

    def traffic(call: Call) -> list[Dim]:
        moved = sum(output.elements for output in call.outputs)
        return [
            0 if value is None else moved if index == source else value.elements
            for index, value in enumerate(call.inputs)
        ]

    return traffic
