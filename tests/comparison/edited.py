"""Networks as lists of layers, edited by hand or at random: what became of every layer is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from sizeup import cost
from sizeup.comparison import Differences, ModelCosts, compare
from sizeup.dtypes import dtype
from sizeup.graph import Constant, Graph, GraphBuilder

FLOAT = dtype("float32")
Identities: TypeAlias = tuple[int, ...]
SIDE = 8  # of every picture, in both directions


@dataclass(frozen=True)
class Layer:
    """A layer of a chain: channels in and out, the size of its window, and who it is, whatever its name."""

    identity: int
    kind: str
    size_in: int = 4
    size_out: int = 4
    kernel: int = 1
    activation: str = ""

    @property
    def macs(self) -> int:
        """By hand: every output number sums a window of all channels."""
        return SIDE * SIDE * self.size_out * self.size_in * self.kernel**2 if self.kind == "conv" else 0


def chain(
    layers: Iterable[Layer], *, names: bool = True, format: str = "torch", prefix: str = "layer"
) -> Graph:
    """The layers one after another; without names, only structure identifies them."""
    builder = GraphBuilder("chain", format)
    x = builder.input("x", (1, 4, SIDE, SIDE), FLOAT)
    for layer in layers:
        scope = f"{prefix}{layer.identity}" if names else ""
        x = append(builder, layer, x, scope)
    builder.outputs.append(x)
    return builder.freeze()


def append(builder: GraphBuilder, layer: Layer, x: int, scope: str) -> int:
    """Add a layer that reads `x`."""
    attrs: dict[str, Any] = {}
    inputs = [x]
    if layer.kind == "conv":
        attrs = {"out_channels": layer.size_out, "groups": 1, "kernel": (layer.kernel, layer.kernel)}
        shape = (layer.size_out, layer.size_in, layer.kernel, layer.kernel)
        inputs.append(builder.tensor(f"{scope}.weight", shape, FLOAT, Constant("parameter")))
    if layer.kind == "batch_norm":
        inputs += [
            builder.tensor(f"{scope}.{each}", (layer.size_out,), FLOAT, Constant("parameter"))
            for each in ("scale", "shift")
        ]
    if layer.activation:
        attrs["activation"] = layer.activation
    output = builder.tensor(f"out{len(builder.tensors)}", (1, layer.size_out, SIDE, SIDE), FLOAT)
    builder.op(layer.kind, inputs, [output], attrs, scope=scope)
    return output


def differences(a: Graph, b: Graph) -> Differences:
    """Compare two graphs at their own dtypes."""
    return compare(*(priced(each) for each in (a, b)))


def priced(graph: Graph) -> ModelCosts:
    """A graph with its counts."""
    counted = cost.count(graph)
    return ModelCosts(counted, counted.bytes_at())


def check_complete(differs: Differences) -> None:
    """Every operator of both is in one row, and rows add up to what the totals differ by."""
    for side, field_name in ((differs.a, "a"), (differs.b, "b")):
        listed = [op for row in differs.rows for op in getattr(row, field_name)]
        assert sorted(listed) == list(range(len(side.cost.graph.ops)))
    assert sum(row.macs for row in differs.rows) == differs.macs
    assert sum(differs.explained_macs.values()) + differs.unexplained_macs == differs.macs
    assert differs.unexplained_macs == 0
    assert differs.unexplained_rows == ()
    params = sum(differs.params_by_status.values()) + differs.unused_params
    assert params == differs.b.cost.total_params - differs.a.cost.total_params


def became(
    differs: Differences, a: Sequence[Layer], b: Sequence[Layer]
) -> tuple[set[tuple[Identities, Identities]], list[tuple[str, Identities, Identities]]]:
    """Whose layers are the same as whose, and the other rows with their status."""
    rows = [
        (row.status, tuple(a[i].identity for i in row.a), tuple(b[i].identity for i in row.b))
        for row in differs.rows
    ]
    same = {(ours, theirs) for status, ours, theirs in rows if status == "same"}
    return same, [row for row in rows if row[0] != "same"]


def edited(
    layers: Sequence[Layer], edits: Sequence[tuple[str, int]]
) -> tuple[list[Layer], dict[str, set[int]]]:
    """Layers after edits at given places (taken modulo the length), and who was deleted, new or changed."""
    now = list(layers)
    edits_by_kind: dict[str, set[int]] = {"deleted": set(), "inserted": set(), "changed": set()}
    untouched = {each.identity for each in layers}
    for number, (what, place) in enumerate(edits):
        at = place % len(now)
        layer = now[at]
        if what == "insert":
            new = Layer(1000 + number, "sigmoid", layer.size_in, layer.size_in)
            now.insert(at, new)
            edits_by_kind["inserted"].add(new.identity)
        elif what == "delete" and layer.identity in untouched and layer.kind != "conv" and len(now) > 1:
            del now[at]
            edits_by_kind["deleted"].add(layer.identity)
        elif what == "change" and layer.identity in untouched and layer.kind == "conv":
            now[at] = replace(layer, kernel=layer.kernel + 2)
            edits_by_kind["changed"].add(layer.identity)
        untouched.discard(layer.identity)
    return now, edits_by_kind
