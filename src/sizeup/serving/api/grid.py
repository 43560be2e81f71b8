"""Memory of a language model at many batches, contexts, precisions and clusters."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sizeup.api.keywords import with_keyword_hints

if TYPE_CHECKING:
    from sizeup.serving.memory.grid import MemoryGrid


@with_keyword_hints
def llm_grid(
    config: str | os.PathLike[str],
    *,
    targets: Sequence[str],
    contexts: Sequence[int],
    sequences: Sequence[int],
    weights: Sequence[str | None] = (None,),
    kv: Sequence[str | None] = (None,),
    layout: str | None = None,
) -> tuple[MemoryGrid, ...]:
    """Return the memory of a language model at all numbers of concurrent sequences of all contexts.

    There is one grid per target, precision of weights and precision of the cache, in that order, with arrays
    of bytes and verdicts that equal those of `llm`. None is the precision of the checkpoint. A million points
    take less than a second.
    """
    return tuple(_grids(config, targets, contexts, sequences, weights, kv, layout))


def _grids(
    config: str | os.PathLike[str],
    targets: Sequence[str],
    contexts: Any,
    sequences: Any,
    weights: Sequence[str | None],
    kv: Sequence[str | None],
    layout: str | None,
) -> Iterator[MemoryGrid]:
    import numpy as np

    from sizeup.serving.memory.deployment import deploy
    from sizeup.serving.memory.engines import server_engine
    from sizeup.serving.memory.grid import memory_grid
    from sizeup.serving.models.reader import read
    from sizeup.targets.clusters import cluster

    axes = np.asarray(contexts, np.int64), np.asarray(sequences, np.int64)
    architectures = [read(config, precision) for precision in weights]
    for target in targets:
        machines, name = cluster(target)
        engine = server_engine(name, machines.device)
        for architecture in architectures:
            for cache in kv:
                deployment = deploy(
                    architecture, machines, engine, input=1, output=1, kv=cache, layout=layout
                )
                yield memory_grid(deployment, *axes)
