"""Reads devices, runtimes and cores from the tables of a file, and validates them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from sizeup.targets import quantities
from sizeup.targets.backends import is_backend, own_backends
from sizeup.targets.device import (
    DEVICE_CLASSES,
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
from sizeup.targets.runtime import (
    EXCLUSIONS,
    FORMATS,
    IN_PLACE,
    MICRO,
    OPERATOR_FORMATS,
    CodeSize,
    GpuProcess,
    OperatorList,
    Runtime,
    WeightOnly,
)
from sizeup.targets.table import Table
from sizeup.units import quoted

CoreOf = Callable[[str], Core | None]

_CORE_KEYS = (
    "name",
    "title",
    "architecture",
    "family",
    "macs_per_cycle",
    "instructions_per_cycle",
    "source",
    "recorded",
    "note",
)
_UNIT_KEYS = (
    "kind",
    "name",
    "core",
    "family",
    "cores",
    "clock",
    "boost",
    "macs_per_cycle",
    "peak",
    "source",
    "note",
)
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
_RUNTIME_KEYS = (
    "name",
    "title",
    "aliases",
    "units",
    "dtypes",
    "fp32_as",
    "fp16_as_fp32",
    "fuses",
    "in_place",
    "reads",
    "overhead",
    "cores",
    "backend",
    "micro",
    "operators",
    "code",
    "packs",
    "memory_pools",
    "weight_only",
    "gpu_process",
    "version",
    "source",
    "recorded",
    "note",
)
DTYPES = tuple(kind for kind in RATE_TYPES if kind != "fp16_acc16")
"""Dtypes of kernels."""
_DERIVED = "derived: cores x clock x MACs per cycle"


def core(table: Table) -> Core:
    """A processor core from its table."""
    table.check_keys(_CORE_KEYS)
    return Core(
        name=table.text("name"),
        title=table.text("title"),
        architecture=table.text("architecture"),
        macs_per_cycle=_macs_per_cycle(table),
        source=table.source(),
        note=table.text("note", ""),
        family=table.text("family", ""),
        instructions_per_cycle=_instructions_per_cycle(table),
    )


def device(table: Table, core_of: CoreOf) -> Device:
    """A device from its table, in which `like` has been resolved."""
    table.check_keys(_DEVICE_KEYS)
    source = verified_source(table)
    power, energy = table.table("power"), table.table("energy")
    units = table.tables("units")
    if not units:
        raise table.error("no units; a device has at least one")
    return Device(
        name=table.text("name"),
        title=table.text("title"),
        device_class=table.choice("kind", DEVICE_CLASSES),
        vendor=table.text("maker"),
        units=tuple(_unit(inner, source, core_of) for inner in units),
        memories=tuple(memory(inner, source) for inner in table.tables("memories")),
        runtimes=table.texts("runtimes"),
        source=source,
        recorded=table.date("recorded"),
        verified=table.date("verified"),
        power=None if power is None else _power(power, source),
        energy=None if energy is None else _energy(energy),
        aliases=table.texts("aliases"),
        note=table.text("note", ""),
        file=table.file,
    )


def whole_bytes(table: Table, name: str) -> int | None:
    """A size in whole bytes; None if the key is missing."""
    size = table.quantity(name, quantities.SIZE)
    if size is not None and size != int(size):
        raise table.error(f"{name} is not a whole number of bytes")
    return None if size is None else int(size)


def verified_source(table: Table) -> str:
    """The source of a table, which is a document if the values were compared with it."""
    source, recorded, verified = table.source(), table.date("recorded"), table.date("verified")
    if verified and "://" not in source:
        raise table.error(f"verified is {verified!r}, but source {source!r} names no document")
    if verified and recorded and verified < recorded:
        raise table.error(f"verified is {verified!r}, before recorded, {recorded!r}")
    return source


def runtime(table: Table) -> Runtime:
    """A runtime from its table."""
    from sizeup.fusion import FUSIONS  # late: looking up names does not need the operators

    table.check_keys(_RUNTIME_KEYS)
    units, dtypes = table.choices("units", UNIT_KINDS), table.choices("dtypes", DTYPES)
    if not units or not dtypes:
        raise table.error(f"{'dtypes' if units else 'units'} is missing; it is a list of texts")
    return Runtime(
        name=table.text("name"),
        title=table.text("title"),
        units=units,
        dtypes=dtypes,
        source=table.source(),
        recorded=table.date("recorded"),
        fp16_as_fp32=table.flag("fp16_as_fp32"),
        fusions=table.choices("fuses", tuple(FUSIONS)),
        in_place=table.choices("in_place", IN_PLACE),
        formats=table.choices("reads", FORMATS),
        overhead_seconds=table.quantity("overhead", quantities.TIME),
        cores=table.integer("cores", 1, 10**6),
        fp32_as=table.choices("fp32_as", DTYPES) or (),
        backend=_backend(table),
        micro=table.choice("micro", MICRO) if "micro" in table.values else "",
        operators=_operators(table),
        code=_code(table),
        packs_weights=table.flag("packs"),
        has_memory_pools=table.flag("memory_pools"),
        weight_only=tuple(_weight_only(inner, dtypes) for inner in table.tables("weight_only")),
        gpu_process=_gpu_process(table),
        version=table.text("version", ""),
        aliases=table.texts("aliases"),
        note=table.text("note", ""),
        file=table.file,
    )


def _implied_backend(table: Table) -> str:
    if "micro" in table.values:
        return "vela" if table.values["micro"] == "ethos-u" else "tflm"
    if "gpu_process" in table.values:
        return "torch"
    name = table.text("name")
    return name if name in own_backends() else ""


def _backend(table: Table) -> str:
    """The name of a backend of sizeup or of an installed package; empty without one.

    A table without it is one of before: its other keys, or a name that is that of a backend, decide.
    """
    name = table.text("backend", _implied_backend(table))
    if name and not is_backend(name):
        own = ", ".join(own_backends())
        raise table.error(f"backend {quoted(name)} is not installed; those of sizeup: {own}")
    return name


def _gpu_process(table: Table) -> GpuProcess | None:
    inner = table.table("gpu_process")
    if inner is None:
        return None
    inner.check_keys(("makers", "context_least", "context_most", "blas_workspaces", "source"))
    least, most = (inner.quantity(name, quantities.SIZE) for name in ("context_least", "context_most"))
    if least is None or most is None or least > most:
        raise inner.error("context_least and context_most are sizes, with context_least <= context_most")
    sizes = inner.by_name(
        "blas_workspaces", None, lambda each, name: each.quantity(name, quantities.SIZE) or 0
    )
    workspaces = {unit: int(size) for unit, size in sizes.items()}
    return GpuProcess(inner.texts("makers"), int(least), int(most), workspaces, inner.source())


def _operators(table: Table) -> OperatorList | None:
    inner = table.table("operators")
    if inner is None:
        return None
    inner.check_keys(("format", "names", "excluded", "source"))
    inner.choice("format", OPERATOR_FORMATS)
    inner.choices("excluded", EXCLUSIONS)
    excluded = tuple(inner.values.get("excluded", ()))
    return OperatorList(inner.values["format"], frozenset(inner.texts("names")), inner.source(), excluded)


def _code(table: Table) -> CodeSize | None:
    inner = table.table("code")
    if inner is None:
        return None
    inner.check_keys(("least", "most", "per_op", "source"))
    least, most, per_op = (inner.quantity(name, quantities.SIZE) for name in ("least", "most", "per_op"))
    if least is None or most is None or least > most:
        raise inner.error("least and most are sizes of code, with least <= most")
    return CodeSize(int(least), int(most), inner.source(), int(per_op or 0))


def _weight_only(table: Table, dtypes: Sequence[str]) -> WeightOnly:
    from sizeup.ops import cost_rule_of

    table.check_keys(("dtype", "computes_in", "op_kinds", "source"))
    op_kinds = table.texts("op_kinds")
    unknown = [op_kind for op_kind in op_kinds if cost_rule_of(op_kind) is None]
    if unknown or not op_kinds:
        raise table.error(f"op_kinds is a list of op kinds{f', not {unknown[0]!r}' if unknown else ''}")
    computes_in = table.choice("computes_in", dtypes)
    return WeightOnly(table.choice("dtype", dtypes), computes_in, op_kinds, table.source())


def _unit(table: Table, source: str, core_of: CoreOf) -> Unit:
    table.check_keys(_UNIT_KEYS)
    core = _core_of_unit(table, core_of)
    cores = table.integer("cores", 1, 10**7)
    clock = table.quantity("clock", quantities.CLOCK)
    boost = table.quantity("boost", quantities.CLOCK)
    if boost is not None and (clock is None or boost < clock):
        raise table.error("boost needs a clock that is not above it")
    source = table.source(source)
    rates, basis = _derived_rates(table, core, cores, boost or clock)
    stated = table.by_name("peak", RATE_TYPES, _peak)
    return Unit(
        unit_class=table.choice("kind", UNIT_KINDS, "cpu"),
        name=table.text("name", core.title if core else None),
        source=source,
        core=core,
        cores=cores,
        clock_hz=clock,
        boost_hz=boost,
        macs_per_second={**rates, **stated},
        basis={**basis, **dict.fromkeys(stated, source)},
        note=table.text("note", ""),
        family=table.text("family", core.family if core else ""),
    )


def _core_of_unit(table: Table, core_of: CoreOf) -> Core | None:
    if "core" not in table.values:
        return None
    name = table.text("core")
    core = core_of(name)
    if core is None:
        raise table.error(f"core {name!r} is not described in any file")
    return core


def _derived_rates(
    table: Table, core: Core | None, cores: int | None, clock: float | None
) -> tuple[dict[str, float], dict[str, str]]:
    """MACs per cycle x cores x clock, by dtype; the unit's own MACs per cycle override those of its core."""
    own = _macs_per_cycle(table)
    per_cycle = {**(core.macs_per_cycle if core else {}), **own}
    if own and clock is None:
        raise table.error("macs_per_cycle needs a clock")
    if clock is None:
        return {}, {}
    rates = {dtype: (cores or 1) * clock * macs for dtype, macs in per_cycle.items()}
    of_core = f" of {core.title} ({core.source})" if core else ""
    return rates, {dtype: _DERIVED if dtype in own else _DERIVED + of_core for dtype in rates}


def _macs_per_cycle(table: Table) -> dict[str, float]:
    return table.by_name("macs_per_cycle", RATE_TYPES, lambda inner, dtype: inner.number(dtype, 1e-3, 1e6))


def _instructions_per_cycle(table: Table) -> float | None:
    name = "instructions_per_cycle"
    return table.number(name, 1e-2, 1e2) if name in table.values else None


def _peak(table: Table, dtype: str) -> float:
    rate = table.quantity(dtype, quantities.RATE)
    assert rate is not None
    return rate


def memory(table: Table, source: str) -> Memory:
    """A memory from its table."""
    table.check_keys(_MEMORY_KEYS)
    size = whole_bytes(table, "size")
    if "bandwidth" in table.values and "bus" in table.values:
        raise table.error("bandwidth and bus are alternatives; keep one")
    source = table.source(source)
    stated, bus = table.quantity("bandwidth", quantities.BANDWIDTH), table.bus("bus")
    return Memory(
        name=table.text("name"),
        role=table.choice("role", ROLES),
        source=source,
        bytes=size,
        bytes_per_second=stated if bus is None else bus,
        basis=f"derived: {table.text('bus')}" if bus else source if stated else "",
        note=table.text("note", ""),
    )


def _power(table: Table, source: str) -> Power:
    table.check_keys(_POWER_KEYS)
    levels = [name for name in ("idle", "typical", "tdp") if name in table.values]
    for lower, higher in pairwise(levels):
        least, most = (table.quantity(name, quantities.POWER) or 0 for name in (lower, higher))
        if least > most:
            raise table.error(f"{lower} is {table.text(lower)!r}, more than {higher}, {table.text(higher)!r}")
    return Power(
        source=table.source(source),
        idle_watts=table.quantity("idle", quantities.POWER),
        typical_watts=table.quantity("typical", quantities.POWER),
        tdp_watts=table.quantity("tdp", quantities.POWER),
        note=table.text("note", ""),
    )


def _energy(table: Table) -> Energy:
    table.check_keys(_ENERGY_KEYS)
    return Energy(
        source=table.source(),
        pj_per_mac=table.by_name("pj_per_mac", RATE_TYPES, lambda inner, kind: inner.number(kind, 1e-4, 1e6)),
        pj_per_byte=table.by_name("pj_per_byte", None, lambda inner, name: inner.number(name, 1e-4, 1e6)),
        note=table.text("note", ""),
    )
