"""Shared scheduling instances with known answers."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from sizeup.memory.schedule_problem import ScheduleProblem


@dataclass(frozen=True)
class Known:
    """The known results of one instance; `proven` and `best` are equal if it is solved."""

    name: str
    file_order_peak: int
    static: int
    best: int
    proven: int

    @property
    def solved(self) -> bool:
        return self.best == self.proven


def known_answers(folder: Path) -> list[Known]:
    with (folder / "graphs.csv").open() as file:
        return [
            Known(
                row["graph"],
                int(row["given_order_peak"]),
                int(row["static_lower_bound"]),
                int(row["best_known_peak"]),
                int(row["proven_lower_bound"]),
            )
            for row in csv.DictReader(file)
        ]


def read(path: Path) -> ScheduleProblem:
    """One line an operator: output bytes, in-place input, is a graph output, inputs."""
    count, *lines = path.read_text().splitlines()
    sizes: list[int] = []
    inputs: list[tuple[int, ...]] = []
    is_output: list[bool] = []
    for line in lines[: int(count)]:
        size, _in_place, is_graph_output, input_count, *read = map(int, line.split())
        sizes.append(size)
        is_output.append(bool(is_graph_output))
        inputs.append(tuple(dict.fromkeys(read[:input_count])))
    outputs = tuple((op,) for op in range(int(count)))
    return ScheduleProblem(tuple(sizes), outputs, tuple(inputs), tuple(is_output))
