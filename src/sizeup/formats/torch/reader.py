"""Reading code with free dimensions: around an example, with as many of them free as it can be run with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from sizeup.formats.torch.eager import summary
from sizeup.formats.torch.indexing import plain_indexing
from sizeup.formats.torch.symbolic import NamedSizes, any_kernel
from sizeup.graph import Graph
from sizeup.symbolic import Guard, Specialization, bound, difference, size

# At a size of 1 much is decided otherwise (what is broadcast, what is contiguous): no good example.
FIRST_EXAMPLE = 2
_LONGEST = 20.0  # CPU seconds, to look for closed forms of one model


class Reader:
    """Runs code on sizes that have names (`trace`), or at a point (`load`) where it needs values."""

    def __init__(
        self,
        names: tuple[str, ...],
        mode: FakeTensorMode,
        trace: Callable[[Mapping[str, Any]], Graph],
        load: Callable[[Mapping[str, int]], Graph],
    ) -> None:
        self._mode, self._trace, self._load = mode, trace, load
        self._free = names  # those that no reading has failed with
        self._reasons: dict[str, str] = {}  # why the others have to have values

    def read(self, example: Mapping[str, int]) -> Specialization:
        """The specialization around an example."""
        # What the model refuses at a point says nothing of free dimensions: it ends here.
        graph = self._at(example)
        found = self._closed(example, self._free, graph) if self._free else ""
        if isinstance(found, Specialization):
            return found
        names, self._free = self._free, ()
        best: Specialization | None = None
        for each in names:
            one_more = self._closed(example, (*self._free, each), graph)
            if isinstance(one_more, Specialization):
                self._free, best = (*self._free, each), one_more
            else:
                self._reasons[each] = one_more
        fixed = self._fixed(example, self._free)
        if best is not None:
            return replace(best, origins={**best.origins, **fixed})
        return Specialization(graph, example, fixed, "; ".join(dict.fromkeys(fixed.values())))

    def _closed(
        self, example: Mapping[str, int], names: tuple[str, ...], at_example: Graph
    ) -> Specialization | str:
        """The specialization around an example with these dimensions free, or why there is none."""
        # Of models that decide much by their sizes, expressions grow without end.
        seconds = _LONGEST if names == tuple(example) else _LONGEST / 4
        sizes = self._mode.shape_env = NamedSizes({name: example[name] for name in names}, seconds)
        try:
            with any_kernel(), _uncached(self._mode), plain_indexing():
                graph = self._trace({**example, **sizes.by_name})
            asked = sizes.conditions()
        # A model's code may take offence at a size without a value in any way it likes.
        except Exception as error:
            return f"{sizes.where} needs a size that has a value: {summary(error)}"
        # Torch may take another way where a size has no value: then it is no form of this model.
        other = difference(bound(graph, example), at_example)
        if other is not None:
            return f"{other} runs otherwise where a size has no value"
        return Specialization(graph, example, {**self._fixed(example, names), **asked})

    def _at(self, example: Mapping[str, int]) -> Graph:
        self._mode.shape_env = ShapeEnv()
        return self._load(example)

    def _fixed(self, example: Mapping[str, int], names: tuple[str, ...]) -> dict[Guard, str]:
        others = [name for name in example if name not in names]
        return {Guard("==", size(name) - example[name]): self._reasons.get(name, "") for name in others}


@contextmanager
def _uncached(mode: FakeTensorMode) -> Iterator[None]:
    """Torch's memory of earlier calls asks for more of the sizes than the calls themselves."""
    before = mode.cache_enabled
    mode.cache_enabled = False
    try:
        yield
    finally:
        mode.cache_enabled = before
