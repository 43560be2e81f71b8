"""From tables of a file to devices, runtimes and cores; everything that is wrong is found here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sizeup.targets import quantities
from sizeup.targets.device import (
    DEVICE_KINDS,
    RATE_TYPES,
    ROLES,
    UNIT_KINDS,
    Core,
    Device,
    Energy,
    Memory,
    Power,
    Unit,
)
from sizeup.targets.runtime import IN_PLACE, MICRO, RATES_SCHEMA, READ, Code, Fit, Reach, Runtime, WeightOnly
from sizeup.targets.table import Table

CoreOf = Callable[[str], Core | None]

_CORE_KEYS = ("name", "title", "architecture", "macs_per_cycle", "source", "recorded", "note")
_UNIT_KEYS = ("kind", "name", "core", "cores", "clock", "boost", "macs_per_cycle", "peak", "source", "note")
_MEMORY_KEYS = ("name", "role", "size", "bandwidth", "bus", "source", "note")
_POWER_KEYS = ("idle", "typical", "tdp", "source", "note")
_ENERGY_KEYS = ("pj_per_mac", "pj_per_byte", "source", "note")
_DEVICE_KEYS = (
    "name",
    "title",
    "kind",
    "maker",
    "like",
    "aliases",
    "runtimes",
    "units",
    "memories",
    "power",
    "energy",
    "source",
    "recorded",
    "verified",
    "note",
)
_FIT_KEYS = (
    "name",
    "precisions",
    "measurements",
    "error",
    "within",
    "tau",
    "held_out",
    "rates",
    "band",
    "version",
    "threads",
    "source",
    "recorded",
    "note",
)
_REACH_KEYS = ("name", "times", "low", "high", "measurements", "devices", "source", "recorded")
_MOST = 10**9  # measurements, and times that a number may be another
_RUNTIME_KEYS = (
    "name",
    "title",
    "aliases",
    "units",
    "dtypes",
    "fuses",
    "in_place",
    "reads",
    "overhead",
    "micro",
    "code",
    "packs",
    "weight_only",
    "version",
    "source",
    "recorded",
    "note",
)
_DTYPES = tuple(kind for kind in RATE_TYPES if kind != "fp16_acc16")
_DERIVED = "derived: cores x clock x MACs per cycle"


def core(table: Table) -> Core:
    """A processor core from its table."""
    table.only(_CORE_KEYS)
    return Core(
        name=table.text("name"),
        title=table.text("title"),
        architecture=table.text("architecture"),
        macs_per_cycle=_macs_per_cycle(table),
        source=table.source(),
        note=table.text("note", ""),
    )


def device(table: Table, core_of: CoreOf) -> Device:
    """A device from its table, in which `like` has been resolved."""
    table.only(_DEVICE_KEYS)
    source = table.source()
    power, energy = table.table("power"), table.table("energy")
    units = table.tables("units")
    if not units:
        raise table.fail("no units; a device computes with at least one")
    return Device(
        name=table.text("name"),
        title=table.text("title"),
        kind=table.choice("kind", DEVICE_KINDS),
        maker=table.text("maker"),
        units=tuple(_unit(each, source, core_of) for each in units),
        memories=tuple(_memory(each, source) for each in table.tables("memories")),
        runtimes=table.texts("runtimes"),
        source=source,
        recorded=table.text("recorded", ""),
        verified=table.date("verified"),
        power=None if power is None else _power(power, source),
        energy=None if energy is None else _energy(energy),
        aliases=table.texts("aliases"),
        note=table.text("note", ""),
        file=table.file,
    )


def runtime(table: Table) -> Runtime:
    """A runtime from its table."""
    from sizeup.fuse import FUSIONS  # whoever only looks for names need not load the operators

    table.only(_RUNTIME_KEYS)
    units, dtypes = table.choices("units", UNIT_KINDS), table.choices("dtypes", _DTYPES)
    if not units or not dtypes:
        raise table.fail(f"{'dtypes' if units else 'units'} is missing; it is a list of texts")
    return Runtime(
        name=table.text("name"),
        title=table.text("title"),
        units=units,
        dtypes=dtypes,
        source=table.source(),
        recorded=table.text("recorded", ""),
        fuses=table.choices("fuses", tuple(FUSIONS)),
        in_place=table.choices("in_place", IN_PLACE),
        reads=table.choices("reads", READ),
        overhead_seconds=table.quantity("overhead", quantities.TIME),
        micro=table.choice("micro", MICRO) if "micro" in table.values else "",
        code=_code(table),
        packs=table.flag("packs"),
        weight_only=tuple(_weight_only(each, dtypes) for each in table.tables("weight_only")),
        version=table.text("version", ""),
        aliases=table.texts("aliases"),
        note=table.text("note", ""),
        file=table.file,
    )


def _code(table: Table) -> Code | None:
    inner = table.table("code")
    if inner is None:
        return None
    inner.only(("least", "most", "source"))
    least, most = (inner.quantity(name, quantities.SIZE) for name in ("least", "most"))
    if least is None or most is None or least > most:
        raise inner.fail("least and most are sizes of code, the former not above the latter")
    return Code(int(least), int(most), inner.source())


def _weight_only(table: Table, dtypes: Sequence[str]) -> WeightOnly:
    from sizeup.ops import rule_of

    table.only(("dtype", "computes_in", "op_kinds", "source"))
    op_kinds = table.texts("op_kinds")
    unknown = [each for each in op_kinds if rule_of(each) is None]
    if unknown or not op_kinds:
        raise table.fail(f"op_kinds is a list of op kinds{f', not {unknown[0]!r}' if unknown else ''}")
    computes_in = table.choice("computes_in", dtypes)
    return WeightOnly(table.choice("dtype", dtypes), computes_in, op_kinds, table.source())


def fit(table: Table) -> Fit:
    """A fit from its table; what its rates mean is the estimator's to say."""
    table.only(_FIT_KEYS)
    rates, band = table.table("rates"), table.table("band")
    if rates is None or band is None:
        raise table.fail("a fit has [fit.rates] and [fit.band]")
    _check_rates(rates)
    _check_band(band)
    return Fit(
        name=table.text("name"),
        precisions=table.choices("precisions", _DTYPES) or (),
        measurements=table.whole("measurements", 1, _MOST) or 0,
        error=table.number("error", 0, _MOST),
        held_out=table.text("held_out"),
        rates=rates.values,
        band={name: band.number(name, -_MOST, _MOST) for name in band.values},
        source=table.source(),
        recorded=table.text("recorded", ""),
        within=None if "within" not in table.values else table.number("within", 0, 1),
        tau=None if "tau" not in table.values else table.number("tau", -1, 1),
        version=table.text("version", ""),
        threads=table.whole("threads", 1, 10**6),
        note=table.text("note", ""),
        file=table.file,
    )


_RATES_KEYS = ("schema", "run", "power", "saturation", "cache", "pooled", "classes")
_RATES_PARTS = {"saturation": ("length", "columns", "rows", "tile", "wave"), "cache": ("bytes", "far")}
_RATE_KEYS = ("mac", "byte", "launch")
_WIDEST = 20.0  # a range of e^20 either way says nothing


def _check_rates(rates: Table) -> None:
    rates.only(_RATES_KEYS)
    schema = rates.whole("schema", 1, _MOST)
    if schema not in (None, RATES_SCHEMA):
        raise rates.fail(
            f"schema is {schema:,}; this version of sizeup reads schema {RATES_SCHEMA}: update sizeup, or"
            " calibrate again with sizeup calibrate"
        )
    pooled, classes = rates.table("pooled"), rates.table("classes")
    if pooled is None:
        raise rates.fail("pooled is missing; it is a table of mac, byte and launch, in seconds")
    for each in (pooled, *(() if classes is None else map(classes.table, classes.values))):
        assert each is not None
        each.only(_RATE_KEYS)
        for name in _RATE_KEYS:
            each.number(name, 0, _MOST)
    if "run" in rates.values:
        rates.number("run", 0, _MOST)
    if "power" in rates.values:
        rates.number("power", 1, 1e3)
    for part, keys in _RATES_PARTS.items():
        if (table := rates.table(part)) is not None:
            table.only(keys)
            for name in table.values:
                table.number(name, 0, 1e15)


def _check_band(band: Table) -> None:
    band.only(("low", "high", "unseen", "drift"))
    low, high = (band.number(name, -_WIDEST, _WIDEST) for name in ("low", "high"))
    if low > high:
        raise band.fail("low lies above high")
    for name in {"unseen", "drift"} & set(band.values):
        band.number(name, 0, _WIDEST)


def reach(table: Table) -> Reach:
    """What a kind of device attains, from its table."""
    table.only(_REACH_KEYS)
    low, times, high = (table.number(name, 0, _MOST) for name in ("low", "times", "high"))
    if not 0 < low <= times <= high:
        raise table.fail("low, times and high do not follow each other")
    name = table.text("name")
    if name.split("/")[0] not in DEVICE_KINDS:
        raise table.fail(f"name is {name!r}, no kind of device and no kind/runtime")
    return Reach(
        name=name,
        times=times,
        low=low,
        high=high,
        measurements=table.whole("measurements", 1, _MOST) or 0,
        devices=table.whole("devices", 1, _MOST) or 0,
        source=table.source(),
        recorded=table.text("recorded", ""),
        file=table.file,
    )


def _unit(table: Table, source: str, core_of: CoreOf) -> Unit:
    table.only(_UNIT_KEYS)
    kernel = _core_of_unit(table, core_of)
    cores = table.whole("cores", 1, 10**7)
    clock = table.quantity("clock", quantities.CLOCK)
    boost = table.quantity("boost", quantities.CLOCK)
    if boost is not None and (clock is None or boost < clock):
        raise table.fail("boost is the highest clock, given beside a lower one")
    source = table.source(source)
    rates, basis = _derived_rates(table, kernel, cores, boost or clock)
    vendor = table.by_name("peak", RATE_TYPES, _peak)
    return Unit(
        kind=table.choice("kind", UNIT_KINDS, "cpu"),
        name=table.text("name", kernel.title if kernel else None),
        source=source,
        core=kernel,
        cores=cores,
        clock_hz=clock,
        boost_hz=boost,
        macs_per_second={**rates, **vendor},
        basis={**basis, **dict.fromkeys(vendor, source)},
        note=table.text("note", ""),
    )


def _core_of_unit(table: Table, core_of: CoreOf) -> Core | None:
    if "core" not in table.values:
        return None
    name = table.text("core")
    found = core_of(name)
    if found is None:
        raise table.fail(f"core {name!r} is not described in any file")
    return found


def _derived_rates(
    table: Table, kernel: Core | None, cores: int | None, clock: float | None
) -> tuple[dict[str, float], dict[str, str]]:
    """What cores complete per cycle, times their number and clock; a unit's own figures go first."""
    own = _macs_per_cycle(table)
    per_cycle = {**(kernel.macs_per_cycle if kernel else {}), **own}
    if own and clock is None:
        raise table.fail("macs_per_cycle says nothing without a clock")
    if clock is None:
        return {}, {}
    rates = {kind: (cores or 1) * clock * macs for kind, macs in per_cycle.items()}
    of_core = f" of {kernel.title} ({kernel.source})" if kernel else ""
    return rates, {kind: _DERIVED if kind in own else _DERIVED + of_core for kind in rates}


def _macs_per_cycle(table: Table) -> dict[str, float]:
    return table.by_name("macs_per_cycle", RATE_TYPES, lambda inner, kind: inner.number(kind, 1e-3, 1e6))


def _peak(table: Table, kind: str) -> float:
    found = table.quantity(kind, quantities.RATE)
    assert found is not None
    return found


def _memory(table: Table, source: str) -> Memory:
    table.only(_MEMORY_KEYS)
    size = table.quantity("size", quantities.SIZE)
    if size is not None and size != int(size):
        raise table.fail("size is not a whole number of bytes")
    if "bandwidth" in table.values and "bus" in table.values:
        raise table.fail("bandwidth and bus say the same thing; keep one")
    source = table.source(source)
    stated, bus = table.quantity("bandwidth", quantities.BANDWIDTH), table.bus("bus")
    basis = source if stated is not None else ""
    return Memory(
        name=table.text("name"),
        role=table.choice("role", ROLES),
        source=source,
        bytes=None if size is None else int(size),
        bytes_per_second=stated if bus is None else bus,
        basis=basis if bus is None else f"derived: {table.text('bus')}",
        note=table.text("note", ""),
    )


def _power(table: Table, source: str) -> Power:
    table.only(_POWER_KEYS)
    return Power(
        source=table.source(source),
        idle_watts=table.quantity("idle", quantities.POWER),
        typical_watts=table.quantity("typical", quantities.POWER),
        tdp_watts=table.quantity("tdp", quantities.POWER),
        note=table.text("note", ""),
    )


def _energy(table: Table) -> Energy:
    table.only(_ENERGY_KEYS)
    return Energy(
        source=table.source(),
        pj_per_mac=table.by_name("pj_per_mac", RATE_TYPES, lambda inner, kind: inner.number(kind, 1e-4, 1e6)),
        pj_per_byte=table.by_name("pj_per_byte", None, lambda inner, name: inner.number(name, 1e-4, 1e6)),
        note=table.text("note", ""),
    )
