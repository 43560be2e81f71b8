"""The expected contents of a sweep's views in plain Python, and generated tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from sizeup.sweeps.schema import NAMES, arrow_schema
from sizeup.sweeps.store import Store

Row = dict[str, Any]
MATCH = ("model", "target", "precision", "batch", "shapes")

# Few values each, so that rows tie and beat each other.
_few = st.sampled_from
_figures = st.fixed_dictionaries(
    {
        "status": _few(["ok", "ok", "ok", "ok", "error"]),
        "fits": _few([True, True, True, False, None]),
        "ms": _few([None, 1.0, 2.0, 2.5, 4.0, 9.0]),
        "params": _few([None, 10, 20]),
        "weight_bytes": _few([None, 10, 20, 30, 50]),
        "macs": _few([None, 0, 100, 200]),
        "peak_bytes": _few([None, 5, 6, 7]),
        "arena_bytes": _few([None, 5, 6]),
        "read_bytes": _few([None, 1, 2]),
        "written_bytes": _few([None, 1, 2]),
        "ops": st.just(4),
        "known_ops": _few([4, 4, 4, 3]),
        "error_kind": _few(["crash", "time"]),
    }
)
_points = st.tuples(
    _few(["a", "b", "c", "d", "e"]),
    _few(["rpi5/ort", "rpi5/litert", "stm32f746/tflm"]),
    _few(["stored", "int8"]),
    _few([None, 1, 8]),
    _few(["", '{"seq": 7}']),
)


@st.composite
def tables(draw: st.DrawFn, least: int = 1, most: int = 40) -> list[Row]:
    """Rows of a sweep, no point twice."""
    points = draw(st.lists(_points, min_size=least, max_size=most, unique=True))
    return [row_at(place, draw(_figures), number) for number, place in enumerate(points)]


def row_at(place: Sequence[Any], figures: Row, number: int) -> Row:
    """A whole row: errors have no figures, and a latency has a range around it."""
    row: Row = {**dict.fromkeys(NAMES), **dict(zip(MATCH, place, strict=True)), **figures}
    row["key"], row["version"] = f"{number:032x}", "0.1.0"
    row["device"], _, row["runtime"] = row["target"].partition("/")
    if row["status"] == "error":
        empty = (
            "fits",
            "ms",
            "params",
            "weight_bytes",
            "macs",
            "peak_bytes",
            "arena_bytes",
            "ops",
            "known_ops",
        )
        return {**row, **dict.fromkeys((*empty, "read_bytes", "written_bytes")), "error": "it ended"}
    row["error_kind"] = None
    if row["ms"] is not None and row["ms"] != 9.0:  # 9.0 stands for an estimate without a range
        row["low_ms"], row["high_ms"], row["level"] = row["ms"] / 2, row["ms"] * 1.5, 0.9
    return row


def write(folder: Path, rows: Sequence[Row], shards: int = 1) -> Path:
    """Store rows as a sweep does, in several shards."""
    import pyarrow as pa

    store = Store(folder)
    for number in range(shards):
        part = pa.Table.from_pylist(rows[number::shards], arrow_schema())
        if len(part):
            store.write(store.shard(f"{number:032x}", "0" * 64), part.to_batches())
    return folder


def is_certain(row: Row) -> bool:
    has_upper_end = row["ms"] is None or row["high_ms"] is not None
    return row["fits"] is True and row["known_ops"] == row["ops"] and has_upper_end


def certainty_tier(row: Row) -> int:
    """0: certain, 1: may not fit or has no upper end, 2: not all of it was counted."""
    return 2 if row["known_ops"] != row["ops"] else 0 if is_certain(row) else 1


def options(rows: Iterable[Row]) -> list[Row]:
    """What could be used: evaluated, and not known to be too large."""
    return [row for row in rows if row["status"] == "ok" and row["fits"] is not False]


def _last(value: Any) -> tuple[bool, Any]:
    """A key of sorting that puts None behind all else."""
    return (value is None, 0 if value is None else value)


def _first(value: Any) -> tuple[bool, Any]:
    return (value is not None, 0 if value is None else value)


def fitting(rows: Iterable[Row]) -> list[Row]:
    """Rows known to fit, group by group, the fastest first."""
    result = [row for row in rows if row["status"] == "ok" and row["fits"] is True]
    return sorted(
        result,
        key=lambda row: (
            *(row["target"], row["precision"], _first(row["batch"])),
            *(not is_certain(row), _last(row["ms"]), row["model"], row["shapes"]),
        ),
    )


def fastest(rows: Iterable[Row], top: int) -> list[tuple[Any, ...]]:
    """Of each target, precision and batch the first few places."""
    groups = defaultdict(list)
    for row in options(rows):
        if row["ms"] is not None:
            groups[row["target"], row["precision"], row["batch"]].append(row)
    result = []
    for group in sorted(groups, key=lambda each: (each[0], each[1], _first(each[2]))):
        ranked = sorted(
            groups[group],
            key=lambda row: (
                certainty_tier(row),
                row["ms"],
                _last(row["params"]),
                row["model"],
                row["shapes"],
            ),
        )
        result += [(*group, place, row["model"], row["shapes"]) for place, row in enumerate(ranked[:top], 1)]
    return result


def front(rows: Iterable[Row], first: str, second: str, signs: tuple[int, int] = (1, 1)) -> set[str]:
    """Keys of the rows that none beats, by comparing all pairs."""
    kept = [row for row in options(rows) if row[first] is not None and row[second] is not None]

    def beats(left: Row, right: Row) -> bool:
        a, b = (
            [sign * row[name] for sign, name in zip(signs, (first, second), strict=True)]
            for row in (left, right)
        )
        return a[0] <= b[0] and a[1] <= b[1] and a != b

    return {
        row["key"]
        for row in kept
        if not any(
            beats(other, row)
            for other in kept
            if (other["device"], other["batch"]) == (row["device"], row["batch"])
            and certainty_tier(other) <= certainty_tier(row)
        )
    }


def unknown(rows: Iterable[Row]) -> dict[str, set[str]]:
    """Keys of evaluated rows of which something is not known, and what that is."""
    result = {}
    for row in rows:
        if row["status"] == "ok":
            lacks = {"fit": row["fits"] is None, "latency": row["ms"] is None}
            lacks["operators"] = row["known_ops"] != row["ops"]
            if any(lacks.values()):
                result[row["key"]] = {name for name, is_so in lacks.items() if is_so}
    return result


def failed(rows: Iterable[Row]) -> Counter[tuple[str, str, str]]:
    """How many points of each model failed for each reason."""
    return Counter(
        (row["model"], row["error_kind"], row["error"]) for row in rows if row["status"] == "error"
    )


def summary(rows: Iterable[Row]) -> dict[tuple[str, str], tuple[int, ...]]:
    """Of each target and precision: models, points, errors, how many fit, do not, may, and have a latency."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["target"], row["precision"]].append(row)
    return {
        group: (
            len({row["model"] for row in mine}),
            len(mine),
            sum(row["status"] == "error" for row in mine),
            *(
                sum(row["status"] == "ok" and row["fits"] is state for row in mine)
                for state in (True, False, None)
            ),
            sum(row["ms"] is not None for row in mine),
        )
        for group, mine in groups.items()
    }


def _moved(row: Row) -> int | None:
    parts = row["read_bytes"], row["written_bytes"]
    return None if None in parts else sum(parts)


def _grew(now: Any, was: Any) -> bool:
    return now is not None and was is not None and now > was


def regressions(now: Iterable[Row], before: Iterable[Row]) -> dict[tuple[Any, ...], set[str]]:
    """What is worse of every point that two sweeps share."""
    old = {tuple(row[name] for name in MATCH): row for row in before}
    result = {}
    for row in now:
        was = old.get(tuple(row[name] for name in MATCH))
        worse = set() if was is None else _worse(row, was)
        if worse:
            result[tuple(row[name] for name in MATCH)] = worse
    return result


def _worse(row: Row, was: Row) -> set[str]:
    if was["status"] == "error":
        return set()
    if row["status"] == "error":
        return {"fails"}
    whole = row["known_ops"] == row["ops"] and was["known_ops"] == was["ops"]
    lost = any(was[name] is not None and row[name] is None for name in ("fits", "ms"))
    lost = lost or (was["known_ops"] == was["ops"] and row["known_ops"] != row["ops"])
    changes = {
        "no longer fits": was["fits"] is True and row["fits"] is False,
        "slower": whole and _grew(row["ms"], was["high_ms"]),
        "more MACs": whole and _grew(row["macs"], was["macs"]),
        "more weights": _grew(row["weight_bytes"], was["weight_bytes"]),
        "more memory": _grew(row["peak_bytes"], was["peak_bytes"])
        or _grew(row["arena_bytes"], was["arena_bytes"]),
        "more traffic": whole and _grew(_moved(row), _moved(was)),
        "less is known": lost,
    }
    return {name for name, is_so in changes.items() if is_so}
