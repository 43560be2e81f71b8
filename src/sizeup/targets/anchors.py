"""Times of served language models that a user measured, from the tables `[[anchor]]` of a target file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sizeup.targets.table import Table

_KEYS = (
    "name",
    "target",
    "configuration",
    "model",
    "layout",
    "requests",
    "input",
    "output",
    "tpot",
    "ttft",
    "benchmark",
    "source",
    "recorded",
)
_MOST_TOKENS = 1 << 32
_LONGEST = 1e6  # seconds


@dataclass(frozen=True, slots=True)
class Anchor:
    """TPOT and TTFT of one configuration at one load, in seconds."""

    target: str  # device/engine, such as h100-sxm/vllm
    configuration: str  # a digest of the model, its precisions and its layout
    model: str
    layout: str
    requests: int  # concurrent
    input: int
    output: int
    tpot: float
    ttft: float | None  # None if it was not measured at a constant number of requests
    benchmark: str  # the name of the file that was read
    recorded: str = ""

    def to_table(self) -> dict[str, Any]:
        """Returns the values of its table; a second measurement at the same load has the same name."""
        point = (self.configuration, self.requests, self.input, self.output)
        digest = hashlib.sha256(repr(point).encode()).hexdigest()[:16]
        values: Mapping[str, Any] = asdict(self)
        return {
            "name": f"{self.target} {digest}",
            **{key: value for key, value in values.items() if value is not None},
            "source": "measured: benchmark of a server",
        }


def anchor(table: Table) -> Anchor:
    """An anchor from its table."""
    table.check_keys(_KEYS)
    return Anchor(
        target=table.text("target"),
        configuration=table.text("configuration"),
        model=table.text("model"),
        layout=table.text("layout"),
        requests=_count(table, "requests"),
        input=_count(table, "input"),
        output=_count(table, "output"),
        tpot=table.number("tpot", 1e-9, _LONGEST),
        ttft=table.number("ttft", 1e-9, _LONGEST) if "ttft" in table.values else None,
        benchmark=table.text("benchmark"),
        recorded=table.date("recorded"),
    )


def _count(table: Table, key: str) -> int:
    count = table.integer(key, 1, _MOST_TOKENS)
    if count is None:
        raise table.error(f"{key} is missing; it is a whole number")
    return count
