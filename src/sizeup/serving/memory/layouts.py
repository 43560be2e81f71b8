"""Layouts of a language model on a cluster: every way to divide it over all devices, as columns.

    tensor      devices that divide each attention head group, dense matrix, embedding and head
    pipeline    stages of whole layers
    data        groups of one server that hold different sequences and share the routed experts
    expert      groups of whole routed experts; tensor x data / expert devices divide each expert
    replicas    independent servers

tensor x pipeline x data x replicas is the number of devices. A dense model has no experts to share, so its
servers are counted by `data`, and `replicas` is 1. All combinations are enumerated that meet the constraints:

    tensor divides the query heads of every layer, and divides or is a multiple of its key-value heads
    tensor fits into one node, unless `across_nodes` is set
    pipeline is at most the number of layers
    expert divides the number of routed experts, and tensor x data

Tensor groups are neighbors, then data, then pipeline stages, then replicas, so that the groups that exchange
most are in one node.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sizeup.errors import SizeupError
from sizeup.serving.models.architecture import Architecture, distinct
from sizeup.targets.clusters import MOST_DEVICES, Cluster
from sizeup.units import quoted

Integers = npt.NDArray[np.int64]

_FACTORS = {"tp": "tensor", "pp": "pipeline", "dp": "data", "ep": "expert"}
_FACTOR = re.compile(r"(tp|pp|dp|ep)([0-9]{1,5})")
_MOST_LAYOUTS = 500_000


@dataclass(frozen=True, slots=True)
class Layout:
    """One layout."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1
    replicas: int = 1

    @property
    def devices(self) -> int:
        """Devices of all servers."""
        return self.tensor * self.pipeline * self.data * self.replicas

    @property
    def expert_tensor(self) -> int:
        """Devices that divide each routed expert."""
        return self.tensor * self.data // self.expert

    def __str__(self) -> str:
        factors = ((short, getattr(self, name)) for short, name in _FACTORS.items())
        text = ",".join(f"{short}{value}" for short, value in factors if value > 1) or "tp1"
        return text if self.replicas == 1 else f"{self.replicas} x {text}"


@dataclass(frozen=True, slots=True)
class Layouts:
    """Layouts as columns, one row per layout."""

    tensor: Integers
    pipeline: Integers
    data: Integers
    expert: Integers
    replicas: Integers

    def __len__(self) -> int:
        return len(self.tensor)

    def __getitem__(self, index: int) -> Layout:
        columns = (self.tensor, self.pipeline, self.data, self.expert, self.replicas)
        return Layout(*(int(column[index]) for column in columns))

    def index(self, layout: Layout) -> int:
        """The row of a layout; raises SizeupError if it is not among them."""
        columns = {name: getattr(self, name) for name in Layout.__slots__}
        rows = np.flatnonzero(
            np.logical_and.reduce([column == getattr(layout, name) for name, column in columns.items()])
        )
        if not len(rows):
            raise SizeupError(f"{layout} is not a valid layout here")
        return int(rows[0])


def from_layouts(rows: Iterable[Layout]) -> Layouts:
    """Columns of given layouts."""
    table = [[getattr(row, name) for name in Layout.__slots__] for row in rows]
    columns = np.array(table, np.int64).reshape(-1, len(Layout.__slots__)).T
    return Layouts(*columns)


def enumerate_layouts(architecture: Architecture, cluster: Cluster, *, across_nodes: bool = False) -> Layouts:
    """Every layout of a model on all devices of a cluster."""
    devices, experts = cluster.devices, architecture.expert_count
    most_tensor = devices if across_nodes else cluster.devices_per_node
    rows: list[tuple[int, int, int, int, int]] = []
    for tensor in _tensors(architecture, devices):
        if tensor > most_tensor or (not across_nodes and cluster.devices_per_node % tensor):
            continue
        for pipeline in _divisors(devices // tensor):
            if pipeline > len(architecture.layers):
                break
            rest = devices // (tensor * pipeline)
            if not experts:
                rows.append((tensor, pipeline, rest, 1, 1))
                continue
            for data in _divisors(rest):
                rows += [
                    (tensor, pipeline, data, expert, rest // data)
                    for expert in _divisors(tensor * data)
                    if experts % expert == 0
                ]
        if len(rows) > _MOST_LAYOUTS:
            raise SizeupError(
                f"more than {_MOST_LAYOUTS:,} layouts on {devices:,} devices; give one by --layout"
            )
    return Layouts(*np.array(rows, np.int64).reshape(-1, 5).T)


def default_layout(architecture: Architecture, cluster: Cluster, *, by_layers: bool = False) -> Layout:
    """The widest tensor parallelism, then as few stages as possible, without expert parallelism.

    With `by_layers`, as many stages as possible instead (llama.cpp's `--split-mode layer`).
    Raises SizeupError if no layout divides the model over all devices.
    """
    layouts = enumerate_layouts(architecture, cluster)
    if not len(layouts):
        raise SizeupError(f"{architecture.name}: no layout divides it over {cluster.devices:,} devices")
    columns = (-layouts.tensor, layouts.replicas, layouts.data, layouts.pipeline, layouts.expert)
    if by_layers:
        columns = (-layouts.pipeline, layouts.tensor, layouts.replicas, layouts.data, layouts.expert)
    return layouts[int(np.lexsort(columns[::-1])[0])]


def parse_layout(text: str, architecture: Architecture, cluster: Cluster) -> Layout:
    """The layout of a text such as `tp4,pp2`, `dp32,ep32` or `2 x tp4`, replicated to use all devices.

    Raises SizeupError if the text is no layout, or a constraint does not hold.
    """
    factors = {"tensor": 1, "pipeline": 1, "data": 1, "expert": 1}
    seen: set[str] = set()
    number, times, server = text.lower().replace(" ", "").rpartition("x")
    for part in server.split(","):
        match = _FACTOR.fullmatch(part)
        if match is None or match[1] in seen:
            raise SizeupError(f"--layout {quoted(text)}: write factors such as tp4,pp2,dp2,ep8, each once")
        seen.add(match[1])
        factors[_FACTORS[match[1]]] = int(match[2])
    layout = Layout(**factors)
    problem = _problem(layout, architecture, cluster)
    if problem:
        raise SizeupError(f"--layout {text}: {problem}")
    copies = cluster.devices // layout.devices
    if times and number != str(copies):
        raise SizeupError(f"--layout {quoted(text)}: on {cluster.name} it is {copies} x {server}")
    if not architecture.expert_count:
        return Layout(layout.tensor, layout.pipeline, layout.data * copies)
    return Layout(layout.tensor, layout.pipeline, layout.data, layout.expert, copies)


def _problem(layout: Layout, architecture: Architecture, cluster: Cluster) -> str:
    """Why a layout is not possible, or ''."""
    devices, experts = cluster.devices, architecture.expert_count
    if min(layout.tensor, layout.pipeline, layout.data, layout.expert) < 1:
        return "a factor is at least 1"
    if layout.devices > devices:
        return f"it needs {layout.devices:,} devices, and {cluster.name} has {devices:,}"
    if layout.devices > MOST_DEVICES or devices % layout.devices:
        return f"it uses {layout.devices:,} devices, which do not divide the {devices:,} of {cluster.name}"
    if not divides_heads(layout.tensor, architecture):
        return f"tp{layout.tensor} does not divide the attention heads of {architecture.name}"
    if layout.pipeline > len(architecture.layers):
        return f"pp{layout.pipeline} exceeds the {len(architecture.layers)} layers"
    if layout.expert > 1 and (not experts or experts % layout.expert):
        return f"ep{layout.expert} does not divide {experts} routed experts"
    if layout.tensor * layout.data % layout.expert:
        return f"ep{layout.expert} does not divide tp x dp = {layout.tensor * layout.data}"
    return ""


def _tensors(architecture: Architecture, devices: int) -> list[int]:
    return [tensor for tensor in _divisors(devices) if divides_heads(tensor, architecture)]


def divides_heads(tensor: int, architecture: Architecture) -> bool:
    """Whether every attention can be divided; key-value heads are replicated beyond their number."""
    for layer, _ in distinct(architecture.layers):
        attention = layer.attention
        heads, groups = attention.query_heads, attention.cache_ways
        if heads and heads % tensor:
            return False
        if attention.kind != "latent" and groups % tensor and tensor % groups:
            return False
    return True


def _divisors(number: int) -> list[int]:
    low = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*low, *(number // divisor for divisor in low)})


def stages(layers: int, pipeline: int) -> list[int]:
    """Layers per pipeline stage: equal, and a rest goes to the stages before the last, as in vLLM.

    vLLM 0.11, `vllm/distributed/utils.py`, `get_pp_indices`: the last stage also has the head.
    """
    counts = [layers // pipeline] * pipeline
    for stage in range(layers % pipeline):
        counts[-2 - stage] += 1
    return counts
