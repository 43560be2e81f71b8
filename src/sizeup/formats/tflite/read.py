"""Loads a .tflite file: graphs, signatures and stored memory plan. Checks requested input shapes."""

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
from sizeup.files import read_problem
from sizeup.formats.external import ModelFolders, model_folders
from sizeup.formats.nodes import FileNodes
from sizeup.formats.tflite.model import Model, placeholder_sizes
from sizeup.formats.tflite.schema import BROKEN, PLAN, damage, numbers, schema
from sizeup.graph import ABSENT, Graph, Shape

_MAGIC = b"TFL3"
_MOST_NAMED = 3
_FIXED = "changing the shapes of a TFLite file is not supported yet: convert the model at that size"
_NOT_PLANNED = -1
_HEADER = 3  # header of a plan: format version, number of subgraphs, number of tensors in all of them


def load(
    source: str | os.PathLike[str] | bytes,
    *,
    inputs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Graph:
    """Load a .tflite file or its content, with the shapes that the file records."""
    schema()
    home: ModelFolders
    if isinstance(source, bytes | bytearray | memoryview):
        name, home, content = "model", (), memoryview(source)
    else:
        path = Path(source)
        name, home, content = path.name, model_folders(path), _map_file(path)
    if bytes(content[4:8]) != _MAGIC:
        raise CorruptModel(
            f"{name}: not a TFLite file: bytes 4 to 8 are not {_MAGIC.decode()!r};"
            " convert or download it again"
        )
    try:
        return _read(Model(content, name, home), inputs or {}, bind or {})
    except BROKEN as error:
        raise CorruptModel(f"{name}: {damage(error)}") from error


def _map_file(path: Path) -> memoryview:
    """Memory-map the file, so that weights are read from disk on demand."""
    try:
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise CorruptModel(f"{path.name}: the file is empty; convert or download it again")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise LoadError(f"{path}: {read_problem(error)}") from error


def _read(model: Model, inputs: Mapping[str, Any], bind: Mapping[str, int]) -> Graph:
    graph = model.graph(0)
    recomputed = _first(model.recomputed)
    for text in recomputed:
        model.note(f"{text}: counted as recorded")
    names = _signature_names(model)
    _note_uncalled_subgraphs(model)
    for file in model.constants.files:
        model.note(f"weights are stored in another file, {file!r}")
    shaped = _check_inputs(model.name, graph, names, inputs)
    _check_batch(model.name, graph, bind)
    return replace(
        _with_names(graph, names),
        name=Path(model.name).stem,
        notes=tuple(model.notes),  # only those of the main graph: taken before the other graphs are read
        offsets=_stored_plan(model),
        other_graphs=_other_graphs(model),
        uncounted_signatures=_other_entries(model),
        missing_files=model.constants.missing_files,
        placeholder_sizes=tuple(placeholder_sizes(model, graph.tensors, shaped)),
        recomputed_outputs=recomputed,
    )


def _first(sentences: list[str]) -> tuple[str, ...]:
    """The first few, and how many more."""
    more = len(sentences) - _MOST_NAMED
    if more <= 0:
        return tuple(sentences)
    return (*sentences[: _MOST_NAMED - 1], f"{sentences[_MOST_NAMED - 1]}, and {more:,} more")


def _other_graphs(model: Model) -> tuple[Graph, ...] | None:
    """All graphs except the main one, or None if one is damaged (the main graph is still counted)."""
    try:
        return tuple(model.graph(index) for index in range(1, model.subgraphs))
    except (CorruptModel, *BROKEN):
        if model.limits.is_exceeded:
            raise
        return None


def _check_inputs(model: str, graph: Graph, names: Mapping[int, str], inputs: Mapping[str, Any]) -> set[int]:
    """Return the inputs with a requested shape; raise LoadError unless it is the recorded one."""
    known = {graph.tensors[identity].name: identity for identity in graph.inputs}
    known |= {names[identity]: identity for identity in graph.inputs if identity in names}
    for name, requested in inputs.items():
        if name not in known:
            raise LoadError(f"{model}: no input is named {name!r}; inputs: {', '.join(map(repr, known))}")
        shape, recorded = _shape_of(requested), graph.tensors[known[name]].shape
        if shape != recorded:
            raise LoadError(
                f"{model}: input {name!r} has the recorded shape {units.shape(recorded)}, not"
                f" {units.shape(shape)};"
                f" {_FIXED}"
            )
    return {known[name] for name in inputs}


def _check_batch(model: str, graph: Graph, bind: Mapping[str, int]) -> None:
    """Raise LoadError unless the requested batch is the recorded one."""
    shapes = [graph.tensors[identity].shape for identity in graph.inputs]
    recorded = {shape[0] for shape in shapes if shape}
    for name, size in bind.items():
        if name != "batch":
            raise LoadError(f"{model}: TFLite has no named dimension {name!r}; only 'batch' can be bound")
        if recorded != {size}:
            saved = ", ".join(map(str, sorted(recorded))) or "none"
            raise LoadError(f"{model}: batch={size} differs from the recorded batch ({saved}); {_FIXED}")


def _shape_of(value: Any) -> Shape:
    return tuple(int(size) for size in getattr(value, "shape", value))


def _signature_names(model: Model) -> dict[int, str]:
    """Names of the main graph's inputs and outputs by tensor id; the first signature takes precedence."""
    names: dict[int, str] = {}
    for number in range(model.limits.length(model.root.SignatureDefsLength())):
        signature = model.root.SignatureDefs(number)
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


def _with_names(graph: Graph, names: Mapping[int, str]) -> Graph:
    """The graph with its inputs and outputs renamed."""
    tensors = list(graph.tensors)
    for identity in {*graph.inputs, *graph.outputs}:
        if identity in names:
            tensors[identity] = replace(tensors[identity], name=names[identity])
    return replace(graph, tensors=tuple(tensors))


def _other_entries(model: Model) -> tuple[str, ...]:
    """The signatures that run another graph than the main one."""
    signatures = map(model.root.SignatureDefs, range(model.limits.length(model.root.SignatureDefsLength())))
    return tuple(
        model.limits.label(signature.SignatureKey()) or f"subgraph {signature.SubgraphIndex()}"
        for signature in signatures
        if signature.SubgraphIndex() != 0
    )


def _note_uncalled_subgraphs(model: Model) -> None:
    """Add a note that lists the subgraphs that the main graph does not call."""
    uncalled = set(model.unreached())
    if not uncalled:
        return
    entries = {index: f"subgraph {index}" for index in sorted(uncalled)}
    for number in range(model.limits.length(model.root.SignatureDefsLength())):
        signature = model.root.SignatureDefs(number)
        if signature.SubgraphIndex() in uncalled:
            entries[signature.SubgraphIndex()] = repr(model.limits.label(signature.SignatureKey()))
    names = ", ".join(list(entries.values())[:10])
    more = f" and {len(entries) - 10} more" if len(entries) > 10 else ""
    model.note(f"only the main graph is counted; the file has other entries: {names}{more}")


def _stored_plan(model: Model) -> tuple[int, ...]:
    """The stored memory plan: one offset per tensor of all subgraphs (-1: not planned), or empty.

    The interpreter reads every entry of that name and takes the last one. A plan for another number of
    tensors gets one offset too many, so that nothing accepts it.
    """
    plans = [
        _plan_of(model, entry)
        for entry in map(model.root.Metadata, range(model.limits.length(model.root.MetadataLength())))
        if model.limits.label(entry.Name()) == PLAN
    ]
    if not plans:
        return ()
    tensors = sum(model.root.Subgraphs(index).TensorsLength() for index in range(model.subgraphs))
    return plans[-1] if all(len(plan) == tensors for plan in plans) else (_NOT_PLANNED,) * (tensors + 1)


def _plan_of(model: Model, entry: Any) -> tuple[int, ...]:
    """The offsets of a metadata entry; none if it does not have as many as it declares."""
    if entry.Buffer() >= model.limits.length(model.root.BuffersLength()):
        raise CorruptModel(
            f"{model.limits.name}: metadata {PLAN!r} names buffer {entry.Buffer()} of"
            f" {model.root.BuffersLength()} buffers"
        )
    content = model.root.Buffers(entry.Buffer()).DataAsNumpy()
    data = b"" if isinstance(content, int) else content.tobytes()  # the schema returns 0 for an absent one
    model.limits.read(len(data))
    values = struct.unpack(f"<{len(data) // 4}i", data[: len(data) // 4 * 4])
    count = values[_HEADER - 1] if len(values) >= _HEADER else 0
    offsets = values[_HEADER:][: max(count, 0)]
    return offsets if len(offsets) == count else ()


_NAMELESS = "main"  # how viewers name a graph without a name


def nodes_of(path: Path) -> FileNodes:
    """The operators of a file's main graph: their indices and output tensors."""
    try:
        table = schema().Model.GetRootAs(path.read_bytes()).Subgraphs(0)
        output_ids = [
            numbers(table.Operators(index).OutputsAsNumpy()) for index in range(table.OperatorsLength())
        ]
        name = (table.Name() or b"").decode("utf-8", "replace")
    except OSError as error:
        raise LoadError(f"{path}: {read_problem(error)}") from error
    except BROKEN as error:
        raise CorruptModel(f"{path}: {damage(error)}") from error
    outputs = tuple(tuple(identity for identity in ids if identity != ABSENT) for ids in output_ids)
    return FileNodes(name or _NAMELESS, tuple(map(str, range(len(output_ids)))), outputs)
