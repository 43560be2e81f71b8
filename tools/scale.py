"""Computes the tables of docs/scale.md: time, cost and storage of sweeps, from measured constants.

python tools/scale.py            # write the tables of the page
python tools/scale.py --check    # exit 1 if they are out of date
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sizeup import units

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "scale.md"
_TRY_SECONDS, _TRIES = 300, 2  # the default limits of a sweep
_PLANNED = ((10_000, 20), (2_000_000, 100), (20_000_000, 100), (200_000_000, 100))
_HOUR = 3600


def constants() -> dict[str, Any]:
    """The constants by name, measured and assumed."""
    content = tomllib.loads((ROOT / "tools" / "scale.toml").read_text("utf-8"))
    entries = {**content["measured"], **content["assumed"]}
    return {name: entry["value"] for name, entry in entries.items() if isinstance(entry, dict)}


@dataclass(frozen=True)
class Plan:
    """Time, cost and storage of evaluating a number of models at a number of points each."""

    models: int
    points: int
    core_hours: float
    hanging_core_hours: float
    hours: float  # on the assumed cores, without those that hang
    dollars: float
    shard_bytes: float
    table_bytes: float
    put_dollars: float
    month_dollars: float
    fetch_hours: float  # of whole files, over the assumed network
    configuration_hours: float
    driver_hours: float
    compact_hours: float
    fastest_seconds: float
    narrow_seconds: float


def plan(models: int, points: int, known: dict[str, Any] | None = None) -> Plan:
    """The plan for a number of models and points per model."""
    c = known or constants()
    core_hours = models * (c["model_cpu_seconds"] + points * c["point_cpu_seconds"]) / _HOUR
    hanging = models * c["hanging_share"] * _TRY_SECONDS * _TRIES / _HOUR
    shards = models * (c["shard_bytes"] + points * c["shard_point_bytes"])
    table = models * points * c["table_point_bytes"]
    millions = models * points / 1e6
    return Plan(
        models,
        points,
        core_hours,
        hanging,
        core_hours / c["cores"],
        (core_hours + hanging) * c["core_hour_dollars"],
        shards,
        table,
        models * c["put_dollars"],
        (shards + table) / 1e9 * c["gigabyte_month_dollars"],
        models * c["file_bytes"] / c["network_bytes_per_second"] / _HOUR,
        models * c["configuration_bytes"] / c["network_bytes_per_second"] / _HOUR,
        models * c["driver_cpu_seconds"] / _HOUR,
        models * c["compact_cpu_seconds"] / _HOUR,
        millions * c["fastest_cpu_seconds"],
        millions * c["narrow_cpu_seconds"],
    )


def _hours(hours: float) -> str:
    if hours < 1 / 60:
        return f"{hours * _HOUR:.2g} s"
    return f"{60 * hours:.3g} min" if hours < 1 else f"{hours:,.3g} h" if hours < 1000 else f"{hours:,.0f} h"


def _amount(number: float) -> str:
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"


def _dollars(amount: float) -> str:
    return f"{amount:,.2f} $" if amount < 10 else f"{amount:,.0f} $"


def _rows(plans: list[Plan]) -> list[tuple[str, list[str]]]:
    return [
        ("models", [f"{plan.models:,}" for plan in plans]),
        ("points per model", [f"{plan.points:,}" for plan in plans]),
        ("rows", [units.count(plan.models * plan.points) for plan in plans]),
        ("core hours", [_amount(plan.core_hours) for plan in plans]),
        ("core hours of models that hang", [_amount(plan.hanging_core_hours) for plan in plans]),
        ("time on 1,024 cores", [_hours(plan.hours) for plan in plans]),
        ("cost of cores", [_dollars(plan.dollars) for plan in plans]),
        ("shards", [units.size(plan.shard_bytes) for plan in plans]),
        ("sorted table", [units.size(plan.table_bytes) for plan in plans]),
        ("cost of puts, once", [_dollars(plan.put_dollars) for plan in plans]),
        ("cost of storage, per month", [_dollars(plan.month_dollars) for plan in plans]),
        ("downloading model files", [_hours(plan.fetch_hours) for plan in plans]),
        ("downloading configurations", [_hours(plan.configuration_hours) for plan in plans]),
        ("Ray driver, one core", [_hours(plan.driver_hours) for plan in plans]),
        ("sorting, one core", [_hours(plan.compact_hours) for plan in plans]),
        ("query `fastest`, CPU", [_hours(plan.fastest_seconds / _HOUR) for plan in plans]),
        ("query of one device, CPU", [_hours(plan.narrow_seconds / _HOUR) for plan in plans]),
    ]


def plan_table() -> str:
    """The table of plans as Markdown."""
    rows = _rows([plan(*planned) for planned in _PLANNED])
    titles = ("", "large registry", "all public models", "x 10", "x 100")
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows)])


def constant_table() -> str:
    """The table of constants with their sources as Markdown."""
    content = tomllib.loads((ROOT / "tools" / "scale.toml").read_text("utf-8"))
    lines = ["| constant | value | source |", "|---|---|---|"]
    for kind in ("measured", "assumed"):
        for name, entry in content[kind].items():
            if isinstance(entry, dict):
                lines.append(f"| `{name}` ({kind}) | {entry['value']:,} | {entry['by']} |")
    return "\n".join(lines)


def sentences() -> str:
    """The costs of a model and a point, and the capacity of one driver, in sentences."""
    c, large = constants(), plan(*_PLANNED[1])
    model, point = c["model_cpu_seconds"], c["point_cpu_seconds"]
    rate = 1 / c["driver_cpu_seconds"]
    cores = rate * large.core_hours * _HOUR / large.models
    return (
        f"A model costs {1e3 * model:,.0f} ms and a point {1e3 * point:.2g} ms:"
        f" loading a model costs as much as {model / point:,.0f} points."
        f" One driver schedules {rate:,.0f} tasks per second, enough for {cores:,.0f} cores."
    )


def written(page: str) -> str:
    """The page with current computed parts."""
    for name, text in (("plan", plan_table()), ("sentences", sentences()), ("constants", constant_table())):
        start, end = f"<!-- {name} -->\n", "<!-- end -->"
        count = page.count(start)
        before, _, rest = page.partition(start)
        page = f"{before}{start}{text}\n{end}{rest.partition(end)[2]}"
        if count != 1:
            raise SystemExit(f"{PAGE.name} has {count} blocks {name!r}; expected 1")
    return page


def main() -> int:
    """Writes the page, or with `--check` compares it."""
    before = PAGE.read_text("utf-8")
    after = written(before)
    if "--check" in sys.argv:
        return int(after != before)
    PAGE.write_text(after, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
