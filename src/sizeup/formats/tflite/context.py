"""State shared while one .tflite file is loaded."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sizeup.formats.tflite.constants import Constants
from sizeup.formats.tflite.schema import FileLimits
from sizeup.graph import Graph


class Context(ABC):
    """The limits, constants, notes and subgraph graphs of a file."""

    def __init__(self, limits: FileLimits, constants: Constants) -> None:
        self.limits = limits
        self.constants = constants
        self.notes: list[str] = []
        self.written: set[str] = set()  # variables that the main graph assigns in every inference

    @property
    def name(self) -> str:
        """The file name, for messages."""
        return self.limits.name

    def note(self, note: str) -> None:
        """Add a note for the report, once."""
        if note not in self.notes:
            self.notes.append(note)

    @abstractmethod
    def graph(self, index: int) -> Graph:
        """The graph of a subgraph."""
