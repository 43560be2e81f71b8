"""Which part of a tensor's name to show where there is no room for all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sizeup.report.plots.canvas import Canvas

_MOST_PARTS = 12  # of a path; deeper ones are looked at from their end
_MOST_ALIKE = 3  # tensors that may share a label before it says nothing


class Names:
    """The names of all tensors, so that the part shown is one that tells them apart."""

    def __init__(self, names: Iterable[str]) -> None:
        self._common = Counter(part for name in names for part in _parts(name))

    def fitted(self, canvas: Canvas, name: str, room: float, points: float) -> str:
        """The rarest part that fits so many pixels, of equals the longest; else a piece of one step."""
        common = self._common
        parts = sorted(_parts(name), key=lambda part: (common[part], -len(part)))
        for part in parts:
            if common[part] > max(_MOST_ALIKE, common[parts[0]]):
                break
            if canvas.width(part, points) <= room:
                return part
        steps = [part for part in parts if "/" not in part]
        rarest = min(steps, key=lambda part: (common[part], len(part)))
        return canvas.cut(rarest, room, points)


def _parts(name: str) -> set[str]:
    """The steps of a path, and its ends.

    Converters join the names of all that they fused with `;`, the first of which says enough.
    """
    first = name.split(";")[0] or name
    steps = [step for step in first.split("/") if step][-_MOST_PARTS:] or [first]
    return {*steps, *("/".join(steps[start:]) for start in range(len(steps)))}
