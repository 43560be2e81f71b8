"""Accuracy per precision: measured by simulated quantization, or read from a CSV file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sizeup import dtypes
from sizeup.dtypes import DType, precision_name
from sizeup.errors import SizeupError
from sizeup.files import read_problem, read_settings
from sizeup.graph import Graph
from sizeup.mixed_precision.measurement import Bench, MeasurementOptions, bench
from sizeup.mixed_precision.options import weight_only
from sizeup.mixed_precision.result_cache import Cache
from sizeup.mixed_precision.simulation import Simulation, can_be_simulated
from sizeup.mixed_precision.table import Data
from sizeup.targets import Target

_MAX_BYTES = 1 << 20
_MAX_SIZE = 1 << 20
_EXPECTED_COLUMNS = "expected columns: precision, accuracy and, optionally, size"
# Columns of the older hardware module (docs/coming-from.md); its sweeps have several lines per precision.
_LEGACY_TITLES = {"accuracy_mean": "accuracy"}
_SWEEP_TITLE = "accepted"
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares of correct samples by precision and input size (None: any size), and their provenance.

    With `is_agreement` there are no labels, and a sample is correct if its top class equals the float
    network's. Only inputs of `sample_shape` have an accuracy, if it is set.
    """

    shares: Mapping[tuple[str, int | None], float]
    provenance: str
    is_agreement: bool = False
    sample_shape: tuple[int, ...] | None = None
    caveats: tuple[str, ...] = ()

    def at(self, precision: str, size: int | None, graph: Graph) -> float | None:
        """Returns the share at a precision for a graph of that input size; None if unknown."""
        shape = graph.tensors[graph.inputs[0]].shape
        if self.sample_shape is not None and (shape is None or tuple(shape[1:]) != self.sample_shape):
            return None
        return self.shares.get((precision, size), self.shares.get((precision, None)))


def measured_accuracy(
    source: Any,
    samples: Data,
    precisions: Sequence[DType],
    target: Target | None,
    *,
    calibration: Any = None,
    cache: Cache = None,
    progress: Progress | None = None,
) -> Accuracy:
    """Runs the network with every layer at each precision; without labels, compares with its float outputs.

    Activations are rounded to the precision itself, or, if the target's runtime supports it for weights only,
    to the dtype that the runtime computes in.
    """
    shares: dict[tuple[str, int | None], float] = {}
    notes: dict[str, None] = {}
    by_simulation: dict[Simulation, list[DType]] = {}
    for precision in filter(can_be_simulated, precisions):
        by_simulation.setdefault(_simulation(precision, target), []).append(precision)
    for simulation, group in by_simulation.items():
        options = MeasurementOptions(simulation=simulation)
        with bench(source, samples, calibration=calibration, options=options, cache=cache) as test_bench:
            for precision, share in _shares(test_bench, group):
                shares[precision_name(precision), None] = share
                if progress is not None:
                    progress(len(shares), len(precisions), f"accuracy at {precision_name(precision)}")
            notes.update(dict.fromkeys(test_bench.notes([precision_name(precision) for precision in group])))
    for precision in precisions:
        if not can_be_simulated(precision):
            notes[f"{precision_name(precision)}: rounding cannot be simulated, so accuracy is unknown"] = None
    first, *caveats = notes
    if shares:
        error = max(math.sqrt(share * (1 - share) / len(samples)) for share in shares.values())
        caveats.append(
            f"shares of {len(samples):,} samples have a standard error of up to {100 * error:.1f} %"
        )
    return Accuracy(shares, first, samples.labels is None, tuple(samples.arrays[0].shape[1:]), tuple(caveats))


def accuracy_from_values(shares: Mapping[str, float]) -> Accuracy:
    """Returns the accuracy that a caller passes, by precision."""
    checked: dict[tuple[str, int | None], float | None] = {
        (precision_name(dtypes.precision(name)), None): _share(str(share), name)
        for name, share in shares.items()
    }
    known = {key: share for key, share in checked.items() if share is not None}
    return Accuracy(known, "provided by the caller")


def _simulation(precision: DType, target: Target | None) -> Simulation:
    limits = weight_only(precision, target)
    return Simulation() if limits is None else Simulation(activations=limits.computes_in)


def _shares(test_bench: Bench, precisions: Sequence[DType]) -> Iterator[tuple[DType, float]]:
    """Yields the share of correct samples with all layers at each precision."""
    _require_float(test_bench)
    if test_bench.data.labels is not None:
        for precision in precisions:
            share = test_bench.measure({layer.op: precision for layer in test_bench.layers}).accuracy
            assert share is not None
            yield precision, share
        return
    expected = _top_class(test_bench, {})
    for precision in precisions:
        top = _top_class(test_bench, {layer.op: precision for layer in test_bench.layers})
        yield precision, float((top == expected).mean())


def _require_float(test_bench: Bench) -> None:
    graph = test_bench.graph
    outputs = [graph.tensors[graph.ops[layer.op].outputs[0]] for layer in test_bench.layers]
    narrow = next((t for t in outputs if t.follows_precision and t.dtype.family != "float"), None)
    if narrow is not None:
        raise SizeupError(
            f"{graph.name}: layers are already {narrow.dtype}, but accuracy is measured on a float"
            " model; give the float model, or --accuracy FILE.csv"
        )


def _top_class(test_bench: Bench, assignment: Mapping[int, DType]) -> Any:
    """Returns each sample's class with the greatest output; -1 if an output is NaN."""
    outputs = np.moveaxis(test_bench.outputs(assignment), test_bench.options.axis, -1)
    if outputs.ndim < 2 or outputs.shape[-1] < 2:
        raise SizeupError(
            f"{test_bench.graph.name}: outputs of shape {outputs.shape} have no class axis; add labels (y)"
        )
    return np.where(np.isnan(outputs).any(axis=-1), -1, outputs.argmax(axis=-1))


class _Line(NamedTuple):
    number: int
    cells: Mapping[str, str]


def read_accuracy(path: Path) -> Accuracy:
    """Reads a CSV file with the columns precision, accuracy and, optionally, size.

    An accuracy is a share from 0 to 1; an empty cell is unknown. Other columns are ignored. Also reads
    precision_tradeoffs.csv of the older hardware module, and averages its sweeps.
    """
    shares: dict[tuple[str, int | None], list[float]] = {}
    for line in _lines(path):
        location = f"{path}: line {line.number}"
        share = _share(line.cells["accuracy"], location)
        if share is None:
            continue
        key = _precision(line.cells["precision"], location), _size(line.cells.get("size", ""), location)
        others = shares.setdefault(key, [])
        if others and others[0] != share and _SWEEP_TITLE not in line.cells:
            raise SizeupError(f"{location}: {key[0]} already has the accuracy {others[0]:g}")
        others.append(share)
    if not shares:
        raise SizeupError(f"{path}: no accuracy in any row; {_EXPECTED_COLUMNS}")
    means = {key: math.fsum(values) / len(values) for key, values in shares.items()}
    return Accuracy(means, f"from {path.name}")


def _lines(path: Path) -> Iterator[_Line]:
    try:
        text = read_settings(path, _MAX_BYTES)
    except OSError as error:
        raise SizeupError(f"{path}: {read_problem(error)}") from error
    except ValueError as error:
        problem = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
        raise SizeupError(f"{path}: {problem}; {_EXPECTED_COLUMNS}") from error
    try:
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        titles = [_LEGACY_TITLES.get(title.strip(), title.strip()) for title in next(rows, [])]
        _check_titles(titles, path)
        for cells in rows:
            if not any(cells):
                continue
            if len(cells) != len(titles):
                raise SizeupError(
                    f"{path}: line {rows.line_num}: {len(cells)} cells, but {len(titles)} columns"
                )
            yield _Line(rows.line_num, dict(zip(titles, map(str.strip, cells), strict=True)))
    except csv.Error as error:
        raise SizeupError(f"{path}: not a CSV file: {error}; {_EXPECTED_COLUMNS}") from error


def _check_titles(titles: Sequence[str], path: Path) -> None:
    for name in ("precision", "accuracy"):
        if titles.count(name) != 1:
            problem = "no column" if name not in titles else "more than one column"
            raise SizeupError(f"{path}: {problem} {name!r}; {_EXPECTED_COLUMNS}")


def _share(text: str, location: str) -> float | None:
    if not text:
        return None
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise SizeupError(f"{location}: accuracy {text[:40]!r} is not a number from 0 to 1 such as 0.982")
    return share


def _precision(text: str, location: str) -> str:
    try:
        return precision_name(dtypes.precision(text[:40]))
    except SizeupError as error:
        raise SizeupError(f"{location}: {error}") from None


def _size(text: str, location: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 8 and 0 < int(text) <= _MAX_SIZE):
        raise SizeupError(f"{location}: size {text[:40]!r} is not an input size such as 224")
    return int(text)
