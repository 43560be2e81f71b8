"""PyTorch loaders: modules, which are traced, and exported programs."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup import units
from sizeup.errors import LoadError, MissingLibrary, NotTrusted, UnknownFormat, WeightsMissing
from sizeup.formats.names import no_training_mode
from sizeup.graph import Graph
from sizeup.symbolic import SymbolicGraph

if TYPE_CHECKING:
    from sizeup.formats.torch.symbolic_inputs import FreeSpec
    from sizeup.formats.torch.zoo import BuiltModel


_NO_BIND = "bind applies to symbolic dimensions of files; a module takes its sizes from inputs"


def _require_torch() -> None:
    try:
        import torch  # noqa: F401 - only checks that it is installed
    except ImportError as error:
        raise MissingLibrary("reading PyTorch models", "torch", "torch") from error


def load(
    source: Any,
    *,
    inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
) -> Graph:
    """Return the graph of a module, traced on fake tensors, or of an exported program."""
    _require_torch()
    import torch

    from sizeup.formats.torch.eager import record
    from sizeup.formats.torch.exported import TorchProgram, record_program

    if isinstance(source, torch.export.ExportedProgram):
        if train:
            raise LoadError(no_training_mode("an exported program"))
        return record_program(TorchProgram(source), inputs=inputs, bind=bind)
    if not isinstance(source, torch.nn.Module):
        raise UnknownFormat(
            f"cannot load a {type(source).__name__}; pass a torch module, an exported program or a path"
        )
    if bind:
        raise LoadError(_NO_BIND)
    return record(source, inputs, kwargs, train=train)


def zoo_names(zoo: str) -> list[str]:
    """Return the names of all models of timm or torchvision."""
    _require_torch()
    from sizeup.formats.torch.sources import names

    return names(zoo)


def load_file(path: Path, *, inputs: Any = None, bind: Mapping[str, int] | None = None) -> Graph:
    """Return the graph of a .pt2 file."""
    _require_torch()
    from sizeup.formats.torch.exported import FileProgram, record_program

    return record_program(FileProgram(path), inputs=inputs, bind=bind, name=path.stem)


def load_named(
    source: str,
    *,
    inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
) -> Graph:
    """Return the graph of torchvision:NAME, timm:NAME, hf:FILE or package.module:factory."""
    _require_torch()
    from sizeup.formats.torch.sources import build

    built = build(source, bind or {})
    if inputs is None and not kwargs:
        graph = _record_built(built, built.inputs, built.kwargs, train=train)
        default_inputs = (graph.tensors[identity] for identity in graph.inputs)
        description = ", ".join(f"{tensor.name} {units.shape(tensor.shape)}" for tensor in default_inputs)
        note = f"default input: {description}"
        fit_notes = (*graph.fit_notes, note) if built.time_limit is not None else graph.fit_notes
        return replace(graph, notes=(*graph.notes, note), fit_notes=fit_notes)
    if built.kwargs and isinstance(inputs, Mapping):
        _refuse_unknown_names(built, inputs)
        inputs, kwargs = None, {**built.kwargs, **inputs, **(kwargs or {})}
    return _record_built(built, inputs, kwargs, train=train)


def load_symbolic(
    source: Any,
    free: FreeSpec,
    *,
    inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
) -> SymbolicGraph:
    """Load a model whose inputs have symbolic dimensions."""
    _require_torch()
    import torch

    from sizeup.formats.torch.eager import fake_mode, record
    from sizeup.formats.torch.exported import FileProgram, TorchProgram
    from sizeup.formats.torch.inputs import module_arguments
    from sizeup.formats.torch.sources import build
    from sizeup.formats.torch.symbolic_inputs import record_symbolic, record_symbolic_program

    if train and isinstance(source, torch.export.ExportedProgram):
        raise LoadError(no_training_mode("an exported program"))
    if isinstance(source, Path):
        return record_symbolic_program(FileProgram(source), free, inputs=inputs, bind=bind, name=source.stem)
    if isinstance(source, str):
        built = build(source, bind or {})
        call_inputs: tuple[Any, Any] = (inputs, kwargs)
        if inputs is None and not kwargs:
            call_inputs = (built.inputs, built.kwargs)
        elif built.kwargs and isinstance(inputs, Mapping):
            _refuse_unknown_names(built, inputs)
            call_inputs = (None, {**built.kwargs, **inputs, **(kwargs or {})})
        mode = built.mode or fake_mode()

        def record_built(call_args: Any) -> Graph:
            return _record_built(built, *call_args, train=train)

        return record_symbolic(
            built.module,
            module_arguments(built.module, *call_inputs),
            free,
            mode,
            built.name,
            record_built,
            train=train,
            finish=lambda graph: _with_storage(built, graph),
        )
    if isinstance(source, torch.export.ExportedProgram):
        return record_symbolic_program(TorchProgram(source), free, inputs=inputs, bind=bind)
    if not isinstance(source, torch.nn.Module):
        raise UnknownFormat(
            f"cannot load a {type(source).__name__} with symbolic dimensions;"
            " pass a torch module or an exported program"
        )
    if bind:
        raise LoadError(_NO_BIND)
    return record_symbolic(
        source,
        module_arguments(source, inputs, kwargs),
        free,
        fake_mode(),
        type(source).__name__,
        lambda call_args: record(source, *call_args, train=train),
        train=train,
    )


def require_trust(source: Any, *, trusted: bool) -> bool:
    """Return whether a source is a .pt2 file. Raises NotTrusted if it is one and `trusted` is false."""
    if not isinstance(source, str | os.PathLike) or not os.fspath(source).lower().endswith(".pt2"):
        return False
    if not trusted:
        raise NotTrusted(
            f"{os.fspath(source)}: torch.export.load can execute code stored in a .pt2 file;"
            " if you trust the file, add --trust (Python: trusted=True)"
        )
    return True


def runnable_source(source: Any, *, trusted: bool) -> Any:
    """Return the program of a trusted .pt2 file, and any other source unchanged."""
    if not require_trust(source, trusted=trusted):
        return source
    _require_torch()
    from sizeup.formats.torch.exported import load_trusted

    return load_trusted(Path(source))


def network(name: str, *, classes: int, width: float = 1.0, divisor: int = 8) -> Any:
    """Return one of the built-in image networks as a module on the meta device."""
    _require_torch()
    from sizeup.formats.torch.networks import build

    return build(name, classes=classes, width=width, divisor=divisor)


def _refuse_unknown_names(built: BuiltModel, inputs: Mapping[str, Any]) -> None:
    """Raise LoadError for an unknown input name; transformers models ignore unknown keywords."""
    known = list(inspect.signature(built.module.forward).parameters)
    for name in inputs:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or known[:3]
            raise LoadError(f"{built.name} has no input {name!r}; did you mean {', '.join(near)}?")


def _record_built(
    built: BuiltModel, inputs: Any, kwargs: Mapping[str, Any] | None, *, train: bool = False
) -> Graph:
    from sizeup.formats.torch.eager import REAL_RUN_BYTES, record
    from sizeup.formats.torch.zoo import offline

    try:
        with offline() if built.mode else nullcontext():  # some request kernels from the Hub
            graph = record(
                built.module,
                inputs,
                kwargs,
                name=built.name,
                mode=built.mode,
                most_ops=built.max_ops,
                limit=built.time_limit,
                train=train,
            )
            return _with_storage(built, graph)
    except WeightsMissing:
        weight_bytes = sum(
            parameter.numel() * parameter.element_size() for parameter in built.module.parameters()
        )
        if built.make_real is None or weight_bytes > REAL_RUN_BYTES:
            raise
    module = built.make_real().eval()
    graph = record(module, inputs, kwargs, name=built.name, limit=built.time_limit, train=train)
    return _with_storage(built, graph)


def _with_storage(built: BuiltModel, graph: Graph) -> Graph:
    """Return the graph with the weights as the model's configuration states that they are stored."""
    from sizeup.formats.torch.stored_weights import DENSE_EXPERTS, computes_all_experts, with_stored_weights

    if not built.fit_notes and not built.stored and built.time_limit is None:
        return graph
    notes = (*graph.notes, *built.fit_notes, *([DENSE_EXPERTS] if computes_all_experts(graph) else []))
    graph = replace(
        graph,
        notes=notes,
        fit_notes=built.fit_notes,
        weights_are_upper_bound=built.weights_are_upper_bound,
    )
    return with_stored_weights(graph, built.stored)
