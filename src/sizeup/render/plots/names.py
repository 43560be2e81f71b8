"""Which part of a tensor's name to show where there is no room for all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sizeup.render.plots.canvas import Canvas

_MOST_PARTS = 12  # of a path; deeper ones are looked at from their end
_MOST_ALIKE = 3  # tensors that may share a label before it says nothing
_LEAST_LETTERS = 4
_ROOM, _POINTS = 230, 7.0  # pixels and size of letters that a name has in a list


class Names:
    """The names of all tensors, so that the part shown is one that tells them apart, wherever it is shown."""

    def __init__(self, canvas: Canvas, names: Iterable[str]) -> None:
        self._canvas = canvas
        self._common = Counter(part for name in names for part in _parts(name))

    def fitted(self, name: str, room: float, points: float) -> str:
        """What a list shows of a name, or a part of that, in so many pixels; empty where nothing fits."""
        short = self._short(name)
        if self._canvas.width(short, points) <= room:
            return short
        parts = self._by_rarity(_parts(short))
        for part in parts:
            if self._tells_apart(part, parts) and self._canvas.width(part, points) <= room:
                return part
        return self._canvas.cut(self._rarest_step(parts), room, points)

    def _short(self, name: str) -> str:
        """The rarest part, and of equals the longest that a list has room for."""
        parts = self._by_rarity(_parts(name))
        for part in parts:
            if self._tells_apart(part, parts) and self._canvas.width(part, _POINTS) <= _ROOM:
                return part
        return self._rarest_step(parts)

    def _by_rarity(self, parts: Iterable[str]) -> list[str]:
        return sorted(parts, key=lambda part: (self._common[part], -len(part), part))

    def _tells_apart(self, part: str, parts: Sequence[str]) -> bool:
        return self._common[part] <= max(_MOST_ALIKE, self._common[parts[0]])

    def _rarest_step(self, parts: Sequence[str]) -> str:
        steps = [part for part in parts if "/" not in part] or parts
        return min(steps, key=lambda part: (self._common[part], len(part), part))


def _parts(name: str) -> set[str]:
    """The steps of a path, and its ends.

    Converters join the names of all that they fused with `;`, the first of which says enough.
    """
    first = name.split(";")[0] or name
    steps = [step for step in first.split("/") if step][-_MOST_PARTS:] or [first]
    parts = {*steps, *("/".join(steps[start:]) for start in range(len(steps)))}
    # A letter or a number alone names nothing, unless that is all there is.
    return {part for part in parts if len(part) >= _LEAST_LETTERS} or {"/".join(steps)}
