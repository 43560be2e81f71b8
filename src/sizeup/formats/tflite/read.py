"""Opening a .tflite file: its signatures, stored memory plan and operators, and checks of given inputs."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sizeup import units
from sizeup.errors import CorruptModel, LoadError
from sizeup.formats.external import Home, home_of
from sizeup.formats.nodes import FileNodes
from sizeup.formats.tflite.model import Model
from sizeup.formats.tflite.schema import BROKEN, PLAN, numbers, schema
from sizeup.graph import ABSENT, Graph, Shape

_MAGIC = b"TFL3"
_FIXED = "changing the shapes of a TFLite file is not supported yet: convert the model at that size"
_NONE = -1
_HEAD = 3  # format version, number of subgraphs, number of tensors in all of them


def load(
    source: str | os.PathLike[str] | bytes,
    *,
    inputs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Graph:
    """Read a .tflite file, or its content; shapes are those that the file records."""
    schema()
    home: Home
    if isinstance(source, bytes | bytearray | memoryview):
        name, home, content = "model", (), memoryview(source)
    else:
        path = Path(source)
        name, home, content = path.name, home_of(path), _mapped(path)
    if bytes(content[4:8]) != _MAGIC:
        raise CorruptModel(
            f"{name}: not a TFLite file: bytes 4 to 8 are not {_MAGIC.decode()!r};"
            " convert or download it again"
        )
    try:
        return _read(Model(content, name, home), inputs or {}, bind or {})
    except BROKEN as error:
        raise CorruptModel(f"{name}: the file is damaged: {error}") from error


def _mapped(path: Path) -> memoryview:
    """The file as memory: its weights are read from disk only when somebody asks for them."""
    try:
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise CorruptModel(f"{path.name}: the file is empty; convert or download it again")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise LoadError(f"{path}: cannot be read: {error.strerror}") from error


def _read(model: Model, inputs: Mapping[str, Any], bind: Mapping[str, int]) -> Graph:
    graph = model.graph(0)
    names = _signature_names(model)
    _note_what_is_left_out(model)
    for file in model.constants.files:
        model.note(f"weights are kept in another file, {file!r}")
    _check_inputs(model.name, graph, names, inputs)
    _check_batch(model.name, graph, bind)
    return replace(
        _renamed(graph, names),
        name=Path(model.name).stem,
        notes=tuple(model.notes),  # of what is counted, so before the other entries are read
        offsets=_stored_plan(model),
        others=_others(model),
        entries=_other_entries(model),
    )


def _others(model: Model) -> tuple[Graph, ...] | None:
    """Every graph but the main one; None where one is damaged, for the main one counts all the same."""
    try:
        return tuple(model.graph(index) for index in range(1, model.subgraphs))
    except (CorruptModel, *BROKEN):
        return None


def _check_inputs(model: str, graph: Graph, names: Mapping[int, str], inputs: Mapping[str, Any]) -> None:
    """Accept the shapes that the file records; others would need every shape of the graph anew."""
    known = {graph.tensors[identity].name: identity for identity in graph.inputs}
    known |= {names[identity]: identity for identity in graph.inputs if identity in names}
    for name, given in inputs.items():
        if name not in known:
            raise LoadError(f"{model}: no input is called {name!r}; it has {', '.join(map(repr, known))}")
        shape, recorded = _shape_of(given), graph.tensors[known[name]].shape
        if shape != recorded:
            raise LoadError(
                f"{model}: input {name!r} was saved as {units.shape(recorded)}, not {units.shape(shape)};"
                f" {_FIXED}"
            )


def _check_batch(model: str, graph: Graph, bind: Mapping[str, int]) -> None:
    """A batch may be named if it is the recorded one."""
    shapes = [graph.tensors[identity].shape for identity in graph.inputs]
    recorded = {shape[0] for shape in shapes if shape}
    for name, size in bind.items():
        if name != "batch":
            raise LoadError(f"{model}: TFLite has no named dimension {name!r}; only 'batch' can be bound")
        if recorded != {size}:
            saved = ", ".join(map(str, sorted(recorded))) or "none"
            raise LoadError(f"{model}: batch={size} differs from what was saved ({saved}); {_FIXED}")


def _shape_of(given: Any) -> Shape:
    return tuple(int(size) for size in getattr(given, "shape", given))


def _signature_names(model: Model) -> dict[int, str]:
    """Names of the main graph's inputs and outputs, by tensor, from the first signature that has them."""
    names: dict[int, str] = {}
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
                    names.setdefault(entry(index).TensorIndex(), name)
    return names


def _renamed(graph: Graph, names: Mapping[int, str]) -> Graph:
    """The graph with its inputs and outputs under those names."""
    tensors = list(graph.tensors)
    for identity in {*graph.inputs, *graph.outputs}:
        if identity in names:
            tensors[identity] = replace(tensors[identity], name=names[identity])
    return replace(graph, tensors=tuple(tensors))


def _other_entries(model: Model) -> tuple[str, ...]:
    """The signatures that run another graph than the main one, called by that or not."""
    signatures = map(model.root.SignatureDefs, range(model.limits.length(model.root.SignatureDefsLength())))
    return tuple(
        model.limits.label(each.SignatureKey()) or f"subgraph {each.SubgraphIndex()}"
        for each in signatures
        if each.SubgraphIndex() != 0
    )


def _note_what_is_left_out(model: Model) -> None:
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


def _stored_plan(model: Model) -> tuple[int, ...]:
    """An offset for every tensor of all subgraphs, -1 for those not planned; empty without a plan."""
    root = model.root
    for index in range(model.limits.length(root.MetadataLength())):
        entry = root.Metadata(index)
        if entry.Name() == PLAN.encode():
            if entry.Buffer() >= model.limits.length(root.BuffersLength()):
                raise CorruptModel(
                    f"{model.limits.name}: metadata {PLAN!r} names buffer {entry.Buffer()} of"
                    f" {root.BuffersLength()}"
                )
            content = root.Buffers(entry.Buffer()).DataAsNumpy()
            if isinstance(content, int):  # the schema's way to say that there is none
                break
            data = content.tobytes()
            return _offsets(struct.unpack(f"<{len(data) // 4}i", data[: len(data) // 4 * 4]))
    return ()


def _offsets(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """As many offsets as the head says there are; one more than there are, where it says too much."""
    head, offsets = numbers[:_HEAD], numbers[_HEAD:]
    if len(head) == _HEAD and head[-1] > len(offsets):
        return (*offsets, _NONE)
    return offsets[: head[-1]] if len(head) == _HEAD and head[-1] >= 0 else ()


_NAMELESS = "main"  # what viewers call a graph without a name


def nodes_of(path: Path) -> FileNodes:
    """The operators of a file's main graph: their places in it, and the tensors that each makes."""
    try:
        table = schema().Model.GetRootAs(path.read_bytes()).Subgraphs(0)
        made = [numbers(table.Operators(place).OutputsAsNumpy()) for place in range(table.OperatorsLength())]
        name = (table.Name() or b"").decode("utf-8", "replace")
    except OSError as error:
        raise LoadError(f"{path}: cannot be read: {error.strerror or error}") from error
    except BROKEN as error:
        raise CorruptModel(f"{path}: the file is damaged: {error}") from error
    outputs = tuple(tuple(each for each in ids if each != ABSENT) for ids in made)
    return FileNodes(name or _NAMELESS, tuple(map(str, range(len(made)))), outputs)
