"""The DNN analyzer's face: `ModelAnalyse(model, (channels, height, width))` prints one row a layer.

    from sizeup.compat.dnn_analyzer import ModelAnalyse

Its MACs are divided by the strides twice and hold norms, activations and pools; they are printed as it
printed them, marked, with the right number beside them. Unlike the original it leaves the model and its
classes as they were, and times layers on the CPU.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sizeup.api import models as api
from sizeup.compat.networks import ruled
from sizeup.compat.tools import library_usage
from sizeup.conventions import CONVENTIONS, ConventionCounts
from sizeup.cost import Cost

COLUMNS = (
    "module name",
    "parameters",
    "mem read (MB)",
    "mem write (MB)",
    "storage (MB)",
    "inference (MB)",
    "MACs (Mega)",
    "duration[%]",
)
SUPPORTED = frozenset({
    *("ReLU", "ReLU6", "PReLU", "LeakyReLU", "Conv1d", "Conv2d", "Conv3d", "Linear"),
    *(f"{kind}Pool{sides}d" for kind in ("Max", "Avg", "AdaptiveMax", "AdaptiveAvg") for sides in (1, 2, 3)),
    *(f"BatchNorm{sides}d" for sides in (1, 2, 3)),
})  # fmt: skip
MEBI = 1 << 20
MEGA = 10**6

# The text imports the class from a module of this name within the package.
model_analysis = sys.modules[__name__]


@dataclass(frozen=True, slots=True)
class Layer:
    """One call of an innermost layer; sizes in bytes, MACs as the original counted them."""

    name: str
    parameters: int
    read_bytes: float
    written_bytes: float
    storage_bytes: int
    inference_bytes: int
    macs: float
    seconds: float | None
    supported: bool


class ModelAnalyse:
    """Analyse a PyTorch model on one batch of random images, print the table, and keep its rows."""

    def __init__(self, model: Any, inp_size: Sequence[int], batch_size: int = 1) -> None:
        from sizeup.formats.torch import layers, modes

        if not isinstance(inp_size, list | tuple) or not inp_size:
            raise TypeError(f"the input's shape is (channels, height, width), not {inp_size!r}")
        shape = (batch_size, *inp_size)
        with modes.run_mode(model):
            cost = api.count(model, (shape,))
        calls = layers.layer_calls(model, (shape,))
        counts = CONVENTIONS["dnn-analyzer"].counted(cost)
        self.layers = tuple(
            _layer(call, counts, ops) for call, ops in zip(calls, _ops_of_calls(cost, calls), strict=True)
        )
        self.right_macs = cost.total_macs
        self.parameters = cost.total_params
        self._print()

    @property
    def total_macs(self) -> float:
        """The original's sum; `right_macs` is what a pass computes."""
        return sum(layer.macs for layer in self.layers)

    @property
    def total_parameters(self) -> int:
        """Parameters over all calls of layers."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def total_storage_bytes(self) -> int:
        """Bytes of those parameters."""
        return sum(layer.storage_bytes for layer in self.layers)

    @property
    def total_inference_bytes(self) -> int:
        """The outputs of all layers added up, which is no peak: most are gone before others are made."""
        return sum(layer.inference_bytes for layer in self.layers)

    @property
    def total_moved_bytes(self) -> float:
        """Bytes read and written by all supported layers."""
        return sum(layer.read_bytes + layer.written_bytes for layer in self.layers)

    def rows(self) -> list[tuple[Any, ...]]:
        """The table's rows, rounded as they are printed."""
        whole = sum(layer.seconds or 0.0 for layer in self.layers)
        return [_row(layer, whole) for layer in self.layers]

    def _print(self) -> None:
        print(ruled(COLUMNS, self.rows()))
        print("Total Storage: ", _size(self.total_storage_bytes))
        print("Total Parameters: ", self.total_parameters)
        print("Total inference memory: ", _size(self.total_inference_bytes))
        print("Total number of Macs: ", _macs(self.total_macs))
        print("Total Memory Read + Write: ", _size(self.total_moved_bytes))
        print(
            f"Note: a pass computes {_macs(self.right_macs)}; the number above divides convolutions by their"
            " strides a second time and adds norms, activations and pools. The inference memory is a sum"
            " over all layers, not a peak."
        )
        unsupported = Counter(layer.name for layer in self.layers if not layer.supported)
        if unsupported:
            listed = ", ".join(f"{name} ({count})" for name, count in unsupported.items())
            print("Not supported for Macs calculation:", listed)


def _ops_of_calls(cost: Cost, calls: Sequence[Any]) -> list[list[int]]:
    """The operators that each call of a layer ran: those of its module, shared out over its calls."""
    of_path: dict[str, list[int]] = defaultdict(list)
    for index, op in enumerate(cost.graph.ops):
        of_path[op.scope].append(index)
    times = Counter(call.path for call in calls)
    seen: Counter[str] = Counter()
    found = []
    for call in calls:
        ops, place = of_path[call.path], seen[call.path]
        each = -(-len(ops) // times[call.path])
        found.append(ops[place * each : (place + 1) * each])
        seen[call.path] += 1
    return found


def _layer(call: Any, counts: ConventionCounts, ops: Sequence[int]) -> Layer:
    supported = not SUPPORTED.isdisjoint(call.classes)
    mine = list(ops) if supported else []
    return Layer(
        call.classes[0],
        call.params,
        float(counts.reads[mine].sum()) * call.element_bytes,
        float(counts.writes[mine].sum()) * call.element_bytes,
        call.params * call.element_bytes,
        call.output_elements * call.element_bytes,
        float(counts.counts[mine].sum()),
        call.seconds,
        supported,
    )


def _row(layer: Layer, whole: float) -> tuple[Any, ...]:
    sizes = (layer.read_bytes, layer.written_bytes, layer.storage_bytes, layer.inference_bytes)
    share = "-" if layer.seconds is None else f"{round(100 * layer.seconds / whole, 2)} %"
    return (
        layer.name,
        layer.parameters,
        *(round(size / MEBI, 3) for size in sizes),
        round(layer.macs / MEGA, 3),
        share,
    )


def _size(size: float) -> str:
    return f"{round(size / MEBI, 2)} MB"


def _macs(macs: float) -> str:
    return f"{round(macs / MEGA, 2)} MMAC"


if __name__ == "__main__":
    sys.exit(library_usage("dnn_analyzer"))
