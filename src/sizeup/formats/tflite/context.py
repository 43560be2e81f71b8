"""What all parts of one .tflite file share while it is read."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sizeup.formats.tflite.constants import Constants
from sizeup.formats.tflite.schema import Limits
from sizeup.graph import Graph


class Context(ABC):
    """The file's limits and constants, the notes on it, and the graphs of its subgraphs."""

    def __init__(self, limits: Limits, constants: Constants) -> None:
        self.limits = limits
        self.constants = constants
        self.notes: list[str] = []
        self.written: set[str] = set()  # variables that the main graph assigns in every run

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return self.limits.name

    def note(self, note: str) -> None:
        """Record an assumption that the reader of a report should see."""
        if note not in self.notes:
            self.notes.append(note)

    @abstractmethod
    def graph(self, index: int) -> Graph:
        """The graph of the subgraph with that number."""
