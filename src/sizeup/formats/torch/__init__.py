"""PyTorch models: code that is run once, and programs that were exported."""

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
from sizeup.errors import LoadError, MissingLibrary, NotTrusted, NumbersMissing, UnknownFormat
from sizeup.graph import Graph
from sizeup.symbolic import FreeGraph

if TYPE_CHECKING:
    from sizeup.formats.torch.free import Free
    from sizeup.formats.torch.zoo import Built


def _require_torch() -> None:
    try:
        import torch  # noqa: F401 - asked for once, so that the message is ours
    except ImportError as error:
        raise MissingLibrary("reading PyTorch models", "torch", "torch") from error


def load(
    source: Any,
    *,
    inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Graph:
    """The graph of a module, run once on tensors without content, or of an exported program."""
    _require_torch()
    import torch

    from sizeup.formats.torch.eager import record
    from sizeup.formats.torch.exported import TorchProgram, record_program

    if isinstance(source, torch.export.ExportedProgram):
        return record_program(TorchProgram(source), inputs=inputs, bind=bind)
    if not isinstance(source, torch.nn.Module):
        raise UnknownFormat(
            f"cannot read a {type(source).__name__}; give a module, a program, a graph or a path"
        )
    if bind:
        raise LoadError("a module takes its sizes from its inputs; bind names free dimensions of files")
    return record(source, inputs, kwargs)


def zoo_names(zoo: str) -> list[str]:
    """The names of all models of timm or torchvision."""
    _require_torch()
    from sizeup.formats.torch.sources import names

    return names(zoo)


def load_file(path: Path, *, inputs: Any = None, bind: Mapping[str, int] | None = None) -> Graph:
    """The graph of a .pt2 file."""
    _require_torch()
    from sizeup.formats.torch.exported import FileProgram, record_program

    return record_program(FileProgram(path), inputs=inputs, bind=bind, name=path.stem)


def load_named(
    source: str,
    *,
    inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Graph:
    """The graph of code that has a name: torchvision:NAME, timm:NAME, hf:FILE, package.module:factory."""
    _require_torch()
    from sizeup.formats.torch.sources import build

    built = build(source, bind or {})
    if inputs is None and not kwargs:
        graph = _record_built(built, built.inputs, built.kwargs)
        inputs_run_on = (graph.tensors[identity] for identity in graph.inputs)
        usual = ", ".join(f"{each.name} {units.shape(each.shape)}" for each in inputs_run_on)
        return replace(graph, notes=(*graph.notes, f"run on its usual input, {usual}"))
    if built.kwargs and isinstance(inputs, Mapping):
        _refuse_unknown_names(built, inputs)
        inputs, kwargs = None, {**built.kwargs, **inputs, **(kwargs or {})}
    return _record_built(built, inputs, kwargs)


def load_free(
    source: Any,
    free: Free,
    *,
    inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> FreeGraph:
    """A module, or code that has a name, whose inputs have free dimensions."""
    _require_torch()
    import torch

    from sizeup.formats.torch.eager import fake_mode, record
    from sizeup.formats.torch.exported import FileProgram, TorchProgram
    from sizeup.formats.torch.free import record_free, record_free_program
    from sizeup.formats.torch.inputs import arguments
    from sizeup.formats.torch.sources import build

    if isinstance(source, Path):
        return record_free_program(FileProgram(source), free, inputs=inputs, bind=bind, name=source.stem)
    if isinstance(source, str):
        built = build(source, bind or {})
        taken: tuple[Any, Any] = (inputs, kwargs)
        if inputs is None and not kwargs:
            taken = (built.inputs, built.kwargs)
        elif built.kwargs and isinstance(inputs, Mapping):
            _refuse_unknown_names(built, inputs)
            taken = (None, {**built.kwargs, **inputs, **(kwargs or {})})
        mode = built.mode or fake_mode()

        def record_built(given: Any) -> Graph:
            return _record_built(built, *given)

        return record_free(built.module, arguments(*taken), free, mode, built.name, record_built)
    if isinstance(source, torch.export.ExportedProgram):
        return record_free_program(TorchProgram(source), free, inputs=inputs, bind=bind)
    if not isinstance(source, torch.nn.Module):
        raise UnknownFormat(
            f"cannot read a {type(source).__name__} with free dimensions; give a module or a program"
        )
    if bind:
        raise LoadError("a module takes its sizes from its inputs; bind names free dimensions of files")
    return record_free(
        source,
        arguments(inputs, kwargs),
        free,
        fake_mode(),
        type(source).__name__,
        lambda given: record(source, *given),
    )


def refuse_untrusted(source: Any, *, trusted: bool) -> bool:
    """Whether a source is a .pt2 file, which only a caller who trusts it may run."""
    if not isinstance(source, str | os.PathLike) or not os.fspath(source).lower().endswith(".pt2"):
        return False
    if not trusted:
        raise NotTrusted(
            f"{os.fspath(source)}: to run a .pt2 file, torch loads it, and that can run any code that the"
            " file holds; if you trust its origin, add --trust (Python: trusted=True)"
        )
    return True


def runnable_source(source: Any, *, trusted: bool) -> Any:
    """What can be run of a source: the program in a .pt2 file that is trusted, anything else as it is."""
    if not refuse_untrusted(source, trusted=trusted):
        return source
    _require_torch()
    from sizeup.formats.torch.exported import load_trusted

    return load_trusted(Path(source))


def network(name: str, *, classes: int, width: float = 1.0, divisor: int = 8) -> Any:
    """A module of one of the small image networks that we know by name, without content in its weights."""
    _require_torch()
    from sizeup.formats.torch.networks import build

    return build(name, classes=classes, width=width, divisor=divisor)


def _refuse_unknown_names(built: Built, inputs: Mapping[str, Any]) -> None:
    """Models of transformers take any keyword and ignore those that they do not know."""
    known = list(inspect.signature(built.module.forward).parameters)
    for name in inputs:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or known[:3]
            raise LoadError(f"{built.name} has no input {name!r}; did you mean {', '.join(near)}?")


def _record_built(built: Built, inputs: Any, kwargs: Mapping[str, Any] | None) -> Graph:
    from sizeup.formats.torch.eager import REAL_RUN_BYTES, record
    from sizeup.formats.torch.zoo import offline

    try:
        with offline() if built.mode else nullcontext():  # some ask the Hub for kernels when they run
            return record(
                built.module,
                inputs,
                kwargs,
                name=built.name,
                mode=built.mode,
                most_ops=built.most_ops,
                limit=built.limit,
            )
    except NumbersMissing:
        held = sum(each.numel() * each.element_size() for each in built.module.parameters())
        if built.real is None or held > REAL_RUN_BYTES:
            raise
    return record(built.real().eval(), inputs, kwargs, name=built.name, limit=built.limit)
