"""A network on a target with its measured latency, and the sources that only validate."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from fitting.measured import target_of
from sizeup.targets import Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HELD_OUT_FILE = Path(__file__).resolve().parent.parent / "held_out_sources.toml"
# throughput: 1 / frames per second of a pipeline; one core: a single core of several that the target has.
# Neither is the latency that an estimate states, so neither counts as an error.
Quantity = Literal["latency", "throughput", "one core"]


class Network(NamedTuple):
    """A model as a user has it, at one input shape; batch is the first dimension.

    `reference` is what sizeup takes (torchvision:NAME, timm:NAME), a .tflite file in shared/models, or a name
    that `networks.py` builds. `macs` and `params` are those of the table, None if it does not have them.
    """

    reference: str
    shape: tuple[int, ...] | None = None
    macs: float | None = None
    params: float | None = None


class Pair(NamedTuple):
    """One measurement of a network on a target."""

    source: str
    network: Network
    precision: str | None
    target: Target
    seconds: float
    quantity: Quantity = "latency"

    @property
    def batch(self) -> int:
        """Images in one inference."""
        return 1 if self.network.shape is None else self.network.shape[0]

    @property
    def device_class(self) -> str:
        """The class of the target's device, e.g. phone."""
        return self.target.device.device_class

    @property
    def is_held_out(self) -> bool:
        """Whether nothing may be fitted to the source of the measurement."""
        return self.source in held_out_sources()


@cache
def held_out_sources() -> frozenset[str]:
    """The names of the sources that only validate."""
    content = tomllib.loads(HELD_OUT_FILE.read_text("utf-8"))
    return frozenset(source["name"] for source in content["source"])


def pair(
    source: str,
    network: Network,
    precision: str | None,
    device: str,
    runtime: str,
    seconds: float,
    quantity: Quantity = "latency",
) -> list[Pair]:
    """The pair of a table's row; none if the catalog lacks the device or the runtime on it."""
    target = target_of(device, runtime)
    is_usable = target is not None and seconds > 0
    return [Pair(source, network, precision, target, seconds, quantity)] if target and is_usable else []
