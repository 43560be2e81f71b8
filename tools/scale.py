"""The arithmetic of docs/scale.md: what a sweep of any size takes, from measured constants.

python tools/scale.py            # write the tables of the page anew
python tools/scale.py --check    # exit 1 where they are out of date
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
_TRY_SECONDS, _TRIES = 300, 2  # the limits of a sweep where nobody says
_PLANNED = ((10_000, 20), (2_000_000, 100), (20_000_000, 100), (200_000_000, 100))
_HOUR = 3600


def constants() -> dict[str, Any]:
    """Every constant by name, measured or assumed."""
    content = tomllib.loads((ROOT / "tools" / "scale.toml").read_text("utf-8"))
    entries = {**content["measured"], **content["assumed"]}
    return {name: entry["value"] for name, entry in entries.items() if isinstance(entry, dict)}


@dataclass(frozen=True)
class Plan:
    """What it takes to evaluate so many models at so many points each."""

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
    """The plan for so many models."""
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
        ("models", [f"{each.models:,}" for each in plans]),
        ("points of each", [f"{each.points:,}" for each in plans]),
        ("rows", [units.count(each.models * each.points) for each in plans]),
        ("core hours", [_amount(each.core_hours) for each in plans]),
        ("core hours of models that hang", [_amount(each.hanging_core_hours) for each in plans]),
        ("time on 1,024 cores", [_hours(each.hours) for each in plans]),
        ("money for cores", [_dollars(each.dollars) for each in plans]),
        ("shards", [units.size(each.shard_bytes) for each in plans]),
        ("sorted table", [units.size(each.table_bytes) for each in plans]),
        ("money for puts, once", [_dollars(each.put_dollars) for each in plans]),
        ("money for storage, a month", [_dollars(each.month_dollars) for each in plans]),
        ("fetching whole files", [_hours(each.fetch_hours) for each in plans]),
        ("fetching configurations", [_hours(each.configuration_hours) for each in plans]),
        ("the driver of Ray, one core", [_hours(each.driver_hours) for each in plans]),
        ("sorting, one core", [_hours(each.compact_hours) for each in plans]),
        ("asking for the fastest, CPU", [_hours(each.fastest_seconds / _HOUR) for each in plans]),
        ("asking for one device, CPU", [_hours(each.narrow_seconds / _HOUR) for each in plans]),
    ]


def plan_table() -> str:
    """The table of plans as Markdown."""
    rows = _rows([plan(*each) for each in _PLANNED])
    titles = ("", "a large registry", "the whole internet", "10 times", "100 times")
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows)])


def constant_table() -> str:
    """The table of constants as Markdown, each with where it is from."""
    content = tomllib.loads((ROOT / "tools" / "scale.toml").read_text("utf-8"))
    lines = ["| constant | value | from |", "|---|---|---|"]
    for kind in ("measured", "assumed"):
        for name, entry in content[kind].items():
            if isinstance(entry, dict):
                lines.append(f"| `{name}` ({kind}) | {entry['value']:,} | {entry['by']} |")
    return "\n".join(lines)


def sentences() -> str:
    """What the plan for the whole internet says in words."""
    c, large = constants(), plan(*_PLANNED[1])
    model, point = c["model_cpu_seconds"], c["point_cpu_seconds"]
    rate = 1 / c["driver_cpu_seconds"]
    cores = rate * large.core_hours * _HOUR / large.models
    return (
        f"A model costs {1e3 * model:,.0f} ms and a point {1e3 * point:.2g} ms:"
        f" {model / point:,.0f} points cost as much as loading their model once."
        f" One driver hands out {rate:,.0f} tasks a second, which keeps {cores:,.0f} cores busy."
    )


def written(page: str) -> str:
    """The page with every computed part as it is now."""
    for name, text in (("plan", plan_table()), ("sentences", sentences()), ("constants", constant_table())):
        start, end = f"<!-- {name} -->\n", "<!-- end -->"
        found = page.count(start)
        before, _, rest = page.partition(start)
        page = f"{before}{start}{text}\n{end}{rest.partition(end)[2]}"
        if found != 1:
            raise SystemExit(f"{PAGE.name} has {found} places for {name}")
    return page


def main() -> int:
    """Write the page, or with `--check` compare it."""
    before = PAGE.read_text("utf-8")
    after = written(before)
    if "--check" in sys.argv:
        return int(after != before)
    PAGE.write_text(after, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
