"""Fits the instruction formulas of TFLite Micro's kernels to counts on emulated Cortex-M cores.

Writes src/sizeup/backends/tflm/instructions.toml. `python -m fitting.instructions` in `tools`, with the
measurements of `boards.py`.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from boards import LIBRARIES, ROOT, build_of, files, graph, measurements
from fitting.tiny import file_of_benchmark
from latency.truth.tables import read
from sizeup.backends.tflm.instructions import Formula, firmware_name, sizes_of, variants
from sizeup.backends.tflm.kernel import Call

OUTPUT = ROOT / "src" / "sizeup" / "backends" / "tflm" / "instructions.toml"
PAGE = ROOT / "docs" / "instructions.md"
CORES = ("m3", "m4", "m55")  # m7 executes the code of m4
_STEP = {"m3": 40, "m4": 40, "m55": 31}  # counts are multiples of it
_LEAST_OPERATORS = 4
_LEAST_MODELS = 3
_REFERENCE = ("calls", "results", "taps", "taps_inside", "macs_inside")
_TERMS = {
    ("reference", "CONV_2D"): _REFERENCE,
    ("reference", "DEPTHWISE_CONV_2D"): _REFERENCE,
    ("reference", "FULLY_CONNECTED"): ("calls", "results", "positions", "macs"),
    ("cmsis-nn", "CONV_2D"): (
        *("calls", "results", "positions", "filters", "macs", "columns", "last_position_macs"),
        *("last_filter_macs", "rest_of_4", "rest_of_16", "window", "window_inside", "lines"),
    ),
    ("cmsis-nn", "DEPTHWISE_CONV_2D"): (
        *("calls", "results", "positions", "macs", "taps_inside", "window", "lines", "channels"),
    ),
    ("cmsis-nn", "FULLY_CONNECTED"): (
        *("calls", "results", "positions", "filters", "macs", "columns", "rest_of_4", "last_filter_macs"),
    ),
}
_WITH_VECTORS = ("vectors", "last_vectors", "quads", "copies")
_PLAIN = ("calls", "results", "read", "rows", "inputs", "outputs", "macs", "taps")
_MEASURED_CORES = ("4", "33")
_TINY_ENGINE_CLOCK = 216e6
_SIMPLE = ("calls", "results", "macs", "taps")  # of variants with few operators
_ASSUMED_ERROR = 0.7  # of those: a factor of two
_HEAD = """\
# Instructions of TFLite Micro's kernels on Arm Cortex-M cores, written by tools/fitting/instructions.py.
# A formula is a sum of coefficients times sizes (see sizeup.backends.tflm.instructions). `error` is the 90 %
# quantile of |log(estimated / counted)| over models that the fit did not see.

[sources]
"""
_SOURCES = {
    "counts": "measured: instructions per operator in QEMU 7.2 with -icount; TFLite Micro 90b983c (reference"
    " kernels) and CMSIS-NN 4ab83cc, GCC 12.2, kernels -O2",
    "cycles": "MLPerf Tiny v1.1, Krai: microTVM with CMSIS-NN on a Nucleo-L4R5ZI and an nRF5340 DK,"
    " https://github.com/mlcommons/tiny_results_v1.1, commit c32ef94, Apache-2.0; divided by the instructions"
    " of the same networks",
    "fastest": "TinyEngine, README.md, https://github.com/mit-han-lab/tinyengine, commit 47bb283, MIT:"
    " mcunet-vww1 on an STM32F746 with CMSIS-NN 011bf32, divided by the instructions of te_vww.tflite with"
    " CMSIS-NN 4ab83cc",
}
_PAGE = """# Instructions of TFLite Micro

For `.tflite` files in TFLite Micro with CMSIS-NN on a Cortex-M4 or M33, `analyze -d` multiplies the
instructions of each operator by measured cycles per instruction. Operators on real numbers were not measured:
if they matter, there is only a lower end, at the fewest cycles per instruction: one on a Cortex-M4, half a
cycle on a Cortex-M33, which can issue two instructions at a time. The instructions come from formulas per
kernel ([method](latency-model.md#instructions)), fitted to counts on emulated cores.
`python -m fitting.instructions` in the folder `tools` fits them and writes this page.

Networks of several operators, estimated by formulas that were fitted without the network:

| core | kernels | networks | MAPE | 90 % quantile | public models | MAPE |
|---|---|--:|--:|--:|--:|--:|
"""
_PAGE_LATENCIES = """\
MLPerf Tiny v1.1, microTVM with CMSIS-NN (Krai), estimated without the network, both in the formulas
and in the cycles per instruction:

| board | network | estimated | measured | error |
|---|---|--:|--:|--:|
"""


@dataclass(frozen=True, slots=True)
class Counted:
    """The instructions of an operator, and its sizes."""

    model: str
    variants: tuple[str, ...]
    sizes: dict[str, float]
    instructions: float


def counted(shared: Path, core: str, kernels: str) -> list[Counted]:
    """Return the operators that were counted on a core with a kernel library."""
    build, rows = build_of(core, kernels), []
    for name in ("real_op_instructions.csv", "generated_op_instructions.csv"):
        with (shared / "boards" / name).open(newline="") as file:
            table = [row for row in csv.DictReader(file) if row["inputs"]]
        for row in table:
            if (row["core"], row["kernels"]) != (core, kernels):
                continue
            model = graph(files(shared)[row["model"]])
            op = model.ops[int(row["operator"])]
            assert op.source == row["kind"], (row["model"], op.source, row["kind"])
            call = Call(op, model.tensors, build)
            rows.append(
                Counted(row["model"], tuple(variants(call)), sizes_of(call), float(row["instructions"]))
            )
    return rows


def fit(rows: list[Counted], terms: tuple[str, ...], step: float) -> Formula:
    """Return the formula with small relative errors and no negative coefficient; counts have a `step`."""
    matrix = np.array([[row.sizes.get(name, 0.0) for name in terms] for row in rows])
    truth = np.array([row.instructions for row in rows])
    weight = 1 / (truth + step)
    solution = nnls(matrix * weight[:, None], truth * weight)[0]
    factors = {name: float(factor) for name, factor in zip(terms, solution, strict=True) if factor > 0}
    return Formula(factors, len(rows), math.nan)


def errors(rows: list[Counted], terms: tuple[str, ...], step: float) -> list[float]:
    """Return log(estimated / counted) of each operator, by a fit to the other models."""
    result = []
    for model in {row.model for row in rows}:
        rest = [row for row in rows if row.model != model]
        if not rest:
            continue
        formula = fit(rest, terms, step)
        for row in rows:
            if row.model == model:
                estimated = formula.instructions(row.sizes)
                result.append(math.log((estimated + step) / (row.instructions + step)))
    return result


def terms_of(kernels: str, vectors: str, variant: str) -> tuple[str, ...]:
    """Return the sizes that the formula of a variant may use."""
    terms = _TERMS.get((kernels, variant.split()[0]), _PLAIN)
    is_float = "float32" in variant
    if is_float and kernels == "cmsis-nn":
        terms = _TERMS.get(("reference", variant.split()[0]), _PLAIN)
    return (*terms, *_WITH_VECTORS) if vectors == "mve" and terms not in (_PLAIN, _REFERENCE) else terms


def formulas_of(shared: Path, core: str, kernels: str) -> list[str]:
    """Return the lines of a firmware's table."""
    build = build_of(core, kernels)
    groups = _by_variant(counted(shared, core, kernels))
    lines = [
        "",
        "[[firmware]]",
        f'name = "{firmware_name(build)}"',
        'source = "counts"',
        "[firmware.kernels]",
    ]
    for variant, rows in sorted(groups.items()):
        narrower = {row.variants[0] for row in rows} - {variant}
        if len(narrower) == 1 and len(rows) == len(groups[next(iter(narrower))]):
            continue  # the narrower variant has the same operators
        terms = _terms(rows, build.kernels, build.vectors, variant)
        factors = fit(rows, terms, _STEP[core]).coefficients
        spread = np.abs(errors(rows, terms, _STEP[core]))
        error = float(np.quantile(spread, 0.9)) if _is_enough(rows) else _ASSUMED_ERROR
        shown = ", ".join(f"{name} = {factor:.4g}" for name, factor in factors.items())
        lines.append(
            f'"{variant}" = {{ operators = {len(rows)}, error = {error:.3f}, coefficients = {{ {shown} }} }}'
        )
    return lines


def _by_variant(rows: list[Counted]) -> dict[str, list[Counted]]:
    groups: dict[str, list[Counted]] = defaultdict(list)
    for row in rows:
        for variant in row.variants:
            groups[variant].append(row)
    return groups


def _terms(rows: list[Counted], kernels: str, vectors: str, variant: str) -> tuple[str, ...]:
    """Return the sizes for the formula of a variant: few if few operators were counted."""
    return terms_of(kernels, vectors, variant) if _is_enough(rows) else _SIMPLE


def left_out_networks(shared: Path, core: str, kernels: str) -> dict[str, tuple[float, float]]:
    """Return the estimated and counted instructions of networks, by formulas fitted without the network.

    Networks have several operators, all of which have a formula.
    """
    build = build_of(core, kernels)
    rows = counted(shared, core, kernels)
    groups = _by_variant(rows)
    models: dict[str, list[Counted]] = defaultdict(list)
    for row in rows:
        models[row.model].append(row)
    result = {}
    for model, own in models.items():
        formulas: dict[str, Formula] = {}
        estimated: list[float] = []
        for row in own:
            for variant in row.variants:
                rest = [other for other in groups[variant] if other.model != model]
                if not rest:
                    continue
                if variant not in formulas:
                    terms = _terms(rest, build.kernels, build.vectors, variant)
                    formulas[variant] = fit(rest, terms, _STEP[core])
                estimated.append(formulas[variant].instructions(row.sizes))
                break
        if len(estimated) == len(own) > 1:
            result[model] = (sum(estimated), sum(row.instructions for row in own))
    return result


def left_out_latencies(shared: Path) -> list[tuple[str, str, float, float]]:
    """Return board, network, seconds estimated from the other networks of the board, and measured seconds."""
    networks = left_out_networks(shared, "m4", "cmsis-nn")
    rows = []
    for core in _MEASURED_CORES:
        chosen = _measured(shared, core)
        rates = {
            bench: cycles / networks[file_of_benchmark(bench)][1] for bench, (cycles, _) in chosen.items()
        }
        for bench, (cycles, row) in chosen.items():
            others = [math.log(rate) for name, rate in rates.items() if name != bench]
            estimated = networks[file_of_benchmark(bench)][0] * math.exp(sum(others) / len(others))
            clock = float(row["clock_mhz"]) * 1e6
            rows.append((row["device"], file_of_benchmark(bench), estimated / clock, cycles / clock))
    return rows


def page(shared: Path) -> str:
    """Return docs/instructions.md."""
    lines = [_PAGE.rstrip()]
    for core in CORES:
        for kernels in LIBRARIES:
            errors_ = {
                model: abs(estimated / count - 1)
                for model, (estimated, count) in left_out_networks(shared, core, kernels).items()
            }
            public = [
                error for model, error in errors_.items() if (shared / "models" / f"{model}.tflite").is_file()
            ]
            every = list(errors_.values())
            name = "reference" if kernels == "ref" else "CMSIS-NN"
            lines.append(
                f"| Cortex-{core.upper()} | {name} | {len(every)} | {100 * np.mean(every):.1f} % |"
                f" {100 * np.quantile(every, 0.9):.1f} % | {len(public)} | {100 * np.mean(public):.1f} % |"
            )
    lines += ["", _PAGE_LATENCIES.rstrip()]
    for board, model, estimated, seconds in left_out_latencies(shared):
        lines.append(
            f"| {board} | {model} | {1e3 * estimated:.3g} ms | {1e3 * seconds:.3g} ms |"
            f" {100 * (estimated / seconds - 1):+.1f} % |"
        )
    return "\n".join(lines) + "\n"


def _is_enough(rows: list[Counted]) -> bool:
    return len(rows) >= _LEAST_OPERATORS and len({row.model for row in rows}) >= _LEAST_MODELS


def _cycles(shared: Path) -> list[dict[str, Any]]:
    """Return MLPerf Tiny's results for int8 networks: core, engine, network, board and cycles."""
    with (shared / "truth" / "mlperf_tiny.csv").open(newline="") as file:
        table = [row for row in csv.DictReader(file) if row["precision"] == "int8"]
    rows = []
    for row in table:
        core = re.search(r"Cortex[^M]*-M(\d+)", row["cpu"])
        if core is None or not row["clock_mhz"] or not row["latency_ms"]:
            continue
        board = re.sub(r"(ZIT6.?|NGH6U|NG)$", "", row["soc"]) + row["clock_mhz"]
        engine = f"{row['runtime']} {row['round']}"
        cycles = float(row["latency_ms"]) * 1e3 * float(row["clock_mhz"])
        rows.append({**row, "core": core.group(1), "board": board, "engine": engine, "cycles": cycles})
    return rows


def counts_on_board(shared: Path) -> dict[str, float]:
    """Return the instructions of one inference on an emulated Cortex-M4 with CMSIS-NN, by model."""
    return {
        row["model"]: float(row["instructions_per_invoke"])
        for row in measurements(shared)
        if (row["core"], row["kernels"]) == ("m4", "cmsis-nn") and row["instructions_per_invoke"]
    }


def cores(shared: Path) -> list[str]:
    """Return the lines of the cores with measured cycles per instruction.

    microTVM calls CMSIS-NN for all products, as TFLite Micro does. The interval is that of the networks on
    one board, left out one by one, and of the ratio of two boards with the same core, engine and network.
    """
    counts = counts_on_board(shared)
    boards = _board_ratios(_cycles(shared))
    lines = []
    for core in _MEASURED_CORES:
        chosen = [
            cycles / counts[file_of_benchmark(bench)]
            for bench, (cycles, _) in _measured(shared, core).items()
        ]
        logs = np.log(chosen)
        left_out = np.abs(logs - (logs.sum() - logs) / (len(logs) - 1))
        spread = float(left_out.max())
        slow, fast = (float(np.quantile(boards, level)) for level in (0.95, 0.05))
        low, high = -math.hypot(spread, min(fast, 0)), math.hypot(spread, max(slow, 0))
        lines += [
            "",
            "[[core]]",
            f'core = "cortex-m{core}"',
            'kernels = "cmsis-nn"',
            f"cycles = {math.exp(logs.mean()):.4g}",
            f"low = {math.exp(low):.3g}",
            f"high = {math.exp(high):.3g}",
            f"measurements = {len(logs)}",
            "boards = 1",
            'source = "cycles"',
        ]
    return lines


def fastest(shared: Path) -> list[str]:
    """Return the lines of the core of TinyEngine's table: cycles per instruction of its network with a file.

    A Cortex-M7 issues two instructions at a time. With CMSIS-NN the network takes fewer than half a cycle per
    instruction that was counted, so the measured build executes fewer.
    """
    table = read(shared / "truth" / "small_tables.csv")
    table = table.where((table.words("dataset") == "tinyengine") & (table.words("model") == "mcunet-vww1"))
    table = table.where(table.words("runtime") == "CMSIS-NN@011bf32")
    (milliseconds,) = table.numbers("latency_ms").tolist()
    cycles = milliseconds / 1e3 * _TINY_ENGINE_CLOCK / counts_on_board(shared)["te_vww"]
    lines = ["", "[[fastest]]", 'core = "cortex-m7"', 'kernels = "cmsis-nn"']
    return [*lines, f"cycles = {cycles:.3g}", 'source = "fastest"']


def _measured(shared: Path, core: str) -> dict[str, tuple[float, dict[str, Any]]]:
    """Return the cycles of each benchmark on a core with CMSIS-NN, and the row."""
    return {
        row["bench"]: (row["cycles"], row)
        for row in _cycles(shared)
        if row["core"] == core and row["org"] == "Krai" and "CMSIS" in row["system"]
    }


def _board_ratios(rows: list[dict[str, Any]]) -> list[float]:
    """Return log ratios of the cycles of two boards with the same core, engine and network."""
    groups: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        cells = groups[row["core"], row["engine"], row["bench"]]
        cells[row["board"]] = min(cells.get(row["board"], math.inf), row["cycles"])
    reference = "STM32L4R5120.0"
    return [
        math.log(cycles / cells[reference])
        for (core, _, _), cells in groups.items()
        if core == "4" and reference in cells
        for board, cycles in cells.items()
        if board != reference
    ]


def main() -> int:
    """Write the formulas."""
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared"))
    parser.add_argument("--shared", type=Path, default=shared, help="folder with `boards` and `models`")
    shared = parser.parse_args().shared
    lines = [line for core in CORES for kernels in LIBRARIES for line in formulas_of(shared, core, kernels)]
    sources = [f'{name} = "{text}"' for name, text in _SOURCES.items()]
    OUTPUT.write_text("\n".join([_HEAD.rstrip(), *sources, *cores(shared), *fastest(shared), *lines]) + "\n")
    PAGE.write_text(page(shared))
    return 0


if __name__ == "__main__":
    sys.exit(main())
