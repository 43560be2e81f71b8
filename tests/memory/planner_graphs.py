"""The ordering instances with known answers that are kept beside the project."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from sizeup.memory.schedule_problem import Problem


@dataclass(frozen=True)
class Known:
    """What is known of one instance; `proven` and `best` are equal where it is solved."""

    name: str
    given: int
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


def read(path: Path) -> Problem:
    """One line an operator: output bytes, in-place input, is a graph output, inputs."""
    count, *lines = path.read_text().splitlines()
    sizes, reads, stays = [], [], []
    for line in lines[: int(count)]:
        size, _in_place, is_output, inputs, *readers = map(int, line.split())
        sizes.append(size)
        stays.append(bool(is_output))
        reads.append(tuple(dict.fromkeys(readers[:inputs])))
    makes = tuple((op,) for op in range(int(count)))
    return Problem(tuple(sizes), makes, tuple(reads), tuple(stays))
