"""What kernels are made of: a counted network, with plain sizes or with free ones."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from sizeup.dtypes import DType
from sizeup.graph import Graph, Tensor
from sizeup.latency.work import Codes, Flags

# Floats; or objects, which are exact: expressions of free dimensions and quotients of them.
Quantities: TypeAlias = np.ndarray[Any, Any]


class Moved(Protocol):
    """Tensors read or written, one entry each; those of operator i are first[i]:first[i + 1]."""

    @property
    def first(self) -> Codes:
        """Where the entries of every operator begin."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Whose numbers move."""

    @property
    def weight(self) -> Flags:
        """Which of them are fixed."""

    def bytes_at(self, precision: DType | None = None) -> Quantities:
        """Bytes of every entry."""


class Counted(Protocol):
    """What a network costs: with plain sizes (`Cost`), or with free ones."""

    @property
    def graph(self) -> Graph:
        """The network."""

    @property
    def macs(self) -> Quantities:
        """Of every operator."""

    @property
    def reads(self) -> Moved:
        """What operators read."""

    @property
    def writes(self) -> Moved:
        """What operators write."""


def number_type(cost: Counted) -> type:
    """What columns of a network hold: floats, or objects where sizes are free."""
    return object if cost.macs.dtype == object else np.float64
