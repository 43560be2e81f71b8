"""Signatures: the names under which users know a model's inputs and outputs, and its other entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sizeup.formats.tflite.model import Model
from sizeup.graph import Graph


def signature_names(model: Model) -> dict[int, str]:
    """Names of the main graph's inputs and outputs, by tensor, from the first signature that has them."""
    found: dict[int, str] = {}
    for place in range(model.limits.length(model.root.SignatureDefsLength())):
        signature = model.root.SignatureDefs(place)
        if signature.SubgraphIndex() != 0:
            continue
        for length, entry in (
            (signature.InputsLength(), signature.Inputs),
            (signature.OutputsLength(), signature.Outputs),
        ):
            model.limits.refer(length)
            for index in range(length):
                name = model.limits.label(entry(index).Name())
                if name:
                    found.setdefault(entry(index).TensorIndex(), name)
    return found


def renamed(graph: Graph, names: Mapping[int, str]) -> Graph:
    """The graph with its inputs and outputs under those names."""
    tensors = list(graph.tensors)
    for identity in {*graph.inputs, *graph.outputs}:
        if identity in names:
            tensors[identity] = replace(tensors[identity], name=names[identity])
    return replace(graph, tensors=tuple(tensors))


def other_entries(model: Model) -> tuple[str, ...]:
    """The signatures that run another graph than the main one, called by that or not."""
    signatures = map(model.root.SignatureDefs, range(model.limits.length(model.root.SignatureDefsLength())))
    return tuple(
        model.limits.label(each.SignatureKey()) or f"subgraph {each.SubgraphIndex()}"
        for each in signatures
        if each.SubgraphIndex() != 0
    )


def note_what_is_left_out(model: Model) -> None:
    """Name the subgraphs that the main graph does not call: other entries of the same file."""
    left_out = set(model.unreached())
    if not left_out:
        return
    entries = {index: f"subgraph {index}" for index in sorted(left_out)}
    for place in range(model.limits.length(model.root.SignatureDefsLength())):
        signature = model.root.SignatureDefs(place)
        if signature.SubgraphIndex() in left_out:
            entries[signature.SubgraphIndex()] = repr(model.limits.label(signature.SignatureKey()))
    shown = ", ".join(list(entries.values())[:10])
    more = f" and {len(entries) - 10} more" if len(entries) > 10 else ""
    model.note(f"only the main graph is counted; the file has other entries: {shown}{more}")
