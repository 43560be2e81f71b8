"""Pairs models that are gone with new ones, so that a renamed model is compared with its predecessor.

All steps take n log n time for n models, and consider only models that no earlier step has paired.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Hashable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from pathlib import PurePosixPath

from sizeup.graph import Graph

# Names are similar if their common start and end make up this share of the longer one.
_SIMILAR = 0.5


def pairs(
    gone: Mapping[str, Collection[Hashable]], new: Mapping[str, Collection[Hashable]]
) -> dict[str, str]:
    """The path of the predecessor by the path of a new model: by content, then by name.

    The arguments are the digests of models by their paths; paths have slashes.
    """
    predecessors = dict(_equal(gone, new))
    for find in (_of_one_name, _similar):
        rest_gone = sorted(gone.keys() - predecessors.values())
        predecessors.update(find(rest_gone, sorted(new.keys() - predecessors.keys())))
    return predecessors


def _equal(
    gone: Mapping[str, Collection[Hashable]], new: Mapping[str, Collection[Hashable]]
) -> Iterator[tuple[str, str]]:
    by_key: dict[Hashable, list[str]] = {}
    for path in sorted(gone, reverse=True):
        for key in gone[path]:
            by_key.setdefault(key, []).append(path)
    used: set[str] = set()
    for path in sorted(new):
        for key in new[path]:
            while (paths := by_key.get(key)) and paths[-1] in used:
                paths.pop()
            if paths:
                used.add(paths[-1])
                yield path, paths.pop()
                break


def _of_one_name(gone: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """Files that were moved to another folder."""
    return _equal(*({path: [PurePosixPath(path).name] for path in paths} for paths in (gone, new)))


def _similar(gone: list[str], new: list[str]) -> dict[str, str]:
    """Files whose names start alike, then those whose names end alike."""
    predecessors: dict[str, str] = {}
    for step in (1, -1):
        used = set(predecessors.values())
        rows = [(_stem(path)[::step], path, False) for path in gone if path not in used]
        rows += [(_stem(path)[::step], path, True) for path in new if path not in predecessors]
        predecessors.update(_neighbours(sorted(rows)))
    return predecessors


def _neighbours(rows: list[tuple[str, str, bool]]) -> Iterator[tuple[str, str]]:
    """Pairs of a new and a gone model that are neighbours in the order of names, the most similar first."""
    before, after = list(range(-1, len(rows) - 1)), list(range(1, len(rows) + 1))
    is_used = [False] * len(rows)
    heap = [(-_similarity(rows[i][0], rows[i + 1][0]), i, i + 1) for i in range(len(rows) - 1)]
    heapify(heap)
    while heap:
        likeness, first, second = heappop(heap)
        is_pair = rows[first][2] != rows[second][2] and -likeness >= _SIMILAR
        if is_used[first] or is_used[second] or not is_pair:
            continue
        is_used[first] = is_used[second] = True
        new, gone = (first, second) if rows[first][2] else (second, first)
        yield rows[new][1], rows[gone][1]
        left, right = before[first], after[second]
        if left >= 0:
            after[left] = right
        if right < len(rows):
            before[right] = left
        if left >= 0 and right < len(rows):
            heappush(heap, (-_similarity(rows[left][0], rows[right][0]), left, right))


def _similarity(one: str, other: str) -> float:
    start = _common(one, other)
    shorter, longer = sorted((len(one), len(other)))
    end = _common(one[start:][::-1], other[start:][::-1])
    return min(start + end, shorter) / max(longer, 1)


def _common(one: str, other: str) -> int:
    """The length of the common start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((length for length, (a, b) in pairs if a != b), min(len(one), len(other)))


def _stem(path: str) -> str:
    """The name of a file without its folder and suffix, in one spelling of letters."""
    return unicodedata.normalize("NFKC", PurePosixPath(path).stem).casefold()


_LEAST_OPS = 3  # too few to compare models by


def likeness(graph: Graph) -> tuple[Hashable, ...]:
    """What two versions of a model may share: the order of op kinds, else their set and all ports."""
    kinds = tuple(op.kind for op in graph.ops)
    if len(kinds) < _LEAST_OPS:
        return ()
    ports = tuple(graph.tensors[index].shape for index in (*graph.inputs, *graph.outputs))
    return kinds, (ports, frozenset(kinds))
