"""Sizes of symbolic dimensions: those that a spec binds, and a batch under whatever name a file has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sizeup.errors import LoadError, SymbolicDimension, UnboundDimension
from sizeup.graph import Graph
from sizeup.sweeps.loading import Loading, Shapes, Sizes
from sizeup.units import toml_key

# In front of a shape these are not a batch: sequences come first in some recurrent networks.
_NOT_BATCH = ("seq", "len", "time", "step", "frame", "token")


def resolved(
    load: Loading, sizes: Sizes, shapes: Shapes, bind: Mapping[str, int]
) -> tuple[Graph, tuple[str, ...]]:
    """The graph at these sizes, and the symbolic dimensions that were set to 1 because no batch was given.

    A dimension that has no size yet takes that of its name in `bind`. The batch is the dimension in front of
    the inputs, whatever it is called.
    """
    try:
        return load(sizes, shapes), ()
    except UnboundDimension as error:
        return _bound(load, sizes, shapes, _added(error.dimensions, bind, sizes.get("batch")), error)
    except LoadError as error:
        others = {name: size for name, size in sizes.items() if name != "batch"}
        dimensions = _unbound(load, others, shapes) if "batch" in sizes else ()
        if not _batch_names(dimensions):
            raise
        return _bound(load, others, shapes, _added(dimensions, bind, sizes["batch"]), error)


def _bound(
    load: Loading, sizes: Sizes, shapes: Shapes, added: Mapping[str, int | None], error: LoadError
) -> tuple[Graph, tuple[str, ...]]:
    """The graph with further sizes; None stands for a batch that was not given."""
    if not added:
        raise _advised(load, error) from error
    defaulted = tuple(name for name, size in added.items() if size is None)
    try:
        return load({**sizes, **{name: size or 1 for name, size in added.items()}}, shapes), defaulted
    except UnboundDimension as left:
        raise _advised(load, left) from left


def _added(
    dimensions: Iterable[SymbolicDimension], bind: Mapping[str, int], batch: int | None
) -> dict[str, int | None]:
    """Sizes by name for those of some dimensions that have one."""
    dimensions = tuple(dimensions)
    found: dict[str, int | None] = dict.fromkeys(_batch_names(dimensions), batch)
    for each in dimensions:
        place = f"{each.input}.{each.axis}"
        if each.name in bind or place in bind:
            found[each.name] = bind[each.name if each.name in bind else place]
    return found


def _batch_names(dimensions: Iterable[SymbolicDimension]) -> list[str]:
    """The names of dimensions that are only ever in front."""
    axes: dict[str, set[int]] = {}
    ranks: dict[str, int] = {}
    for each in dimensions:
        axes.setdefault(each.name, set()).add(each.axis)
        ranks[each.name] = max(ranks.get(each.name, 0), each.rank)
    return [
        name
        for name in axes
        if axes[name] == {0}
        and (ranks[name] > 1 or (name and "batch" in name.lower()))
        and not any(word in name.lower() for word in _NOT_BATCH)
    ]


def _unbound(load: Loading, sizes: Sizes, shapes: Shapes) -> tuple[SymbolicDimension, ...]:
    """The dimensions that a file leaves open at these sizes."""
    if load.file is None or not load.file.lower().endswith((".onnx", ".pt2")):
        return ()
    try:
        load(sizes, shapes)
    except UnboundDimension as error:
        return error.dimensions
    except LoadError:
        pass
    return ()


def _advised(load: Loading, error: LoadError) -> LoadError:
    """The error with what a spec says, in the place of options that a sweep does not have."""
    if not isinstance(error, UnboundDimension) or not error.dimensions:
        return error
    dimensions = error.dimensions
    bind = ", ".join(f"{toml_key(name)} = 128" for name in error.names)
    whole = ", ".join(f'{toml_key(each.input)} = "1x3x224x224"' for each in dimensions if not each.name)
    advice = [f"bind = {{ {bind} }}"] * bool(bind) + [f"shapes = {{ {whole} }}"] * bool(whole)
    text = f"dimensions without a size: {error.places}. Set them in the spec, as in {' and '.join(advice)}"
    return UnboundDimension(text if load.file is None else f"{load.file}: {text}", dimensions)
