"""Accuracy by precision: measured by simulated quantization, or read from a CSV file."""

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
from sizeup.graph import Graph
from sizeup.mixed_precision.measuring import Bench, Options, bench
from sizeup.mixed_precision.options import weight_only
from sizeup.mixed_precision.simulating import Simulation, can_be_simulated
from sizeup.mixed_precision.store import Cache
from sizeup.mixed_precision.table import Data
from sizeup.targets import Target

_MOST_BYTES = 1 << 20
_MOST_SIZE = 1 << 20
_ADVICE = "columns are precision and accuracy, and size if it differs by input size"
# Of the hardware module of docs/coming-from.md: its table has means, its sweep several lines per precision.
_OLDER_TITLES = {"accuracy_mean": "accuracy"}
_SWEEP_TITLE = "accepted"
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares of correct samples by precision and input size (None: any), and where they come from.

    With `is_agreement` a sample is correct if its top class is the float network's: there were no labels.
    `sample_shape` is the shape that was measured; other shapes have no accuracy.
    """

    shares: Mapping[tuple[str, int | None], float]
    provenance: str
    is_agreement: bool = False
    sample_shape: tuple[int, ...] | None = None
    caveats: tuple[str, ...] = ()

    def at(self, precision: str, size: int | None, graph: Graph) -> float | None:
        """The share at a precision, for a graph of that input size; None if unknown."""
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
    """Run the network with every layer at each precision; without labels, compare with its float outputs.

    Activations are rounded as the runtime of the target has them: at the precision itself, or at what it
    computes in if the precision is for weights alone.
    """
    shares: dict[tuple[str, int | None], float] = {}
    notes: dict[str, None] = {}
    by_simulation: dict[Simulation, list[DType]] = {}
    for precision in filter(can_be_simulated, precisions):
        by_simulation.setdefault(_simulation(precision, target), []).append(precision)
    for simulation, mine in by_simulation.items():
        options = Options(simulation=simulation)
        with bench(source, samples, calibration=calibration, options=options, cache=cache) as made:
            for precision, share in _shares(made, mine):
                shares[precision_name(precision), None] = share
                if progress is not None:
                    progress(len(shares), len(precisions), f"accuracy at {precision_name(precision)}")
            notes.update(dict.fromkeys(made.notes([precision_name(each) for each in mine])))
    for precision in precisions:
        if not can_be_simulated(precision):
            notes[
                f"{precision_name(precision)}: its rounding cannot be simulated, so accuracy is unknown"
            ] = None
    first, *caveats = notes
    if shares:
        error = max(math.sqrt(share * (1 - share) / len(samples)) for share in shares.values())
        caveats.append(
            f"shares of {len(samples):,} samples have a standard error of up to {100 * error:.1f} %"
        )
    return Accuracy(shares, first, samples.labels is None, tuple(samples.arrays[0].shape[1:]), tuple(caveats))


def given_accuracy(shares: Mapping[str, float]) -> Accuracy:
    """Accuracy that a caller knows, by precision."""
    checked = {
        (precision_name(dtypes.precision(name)), None): _share(str(share), name)
        for name, share in shares.items()
    }
    return Accuracy({key: share for key, share in checked.items() if share is not None}, "as given")


def _simulation(precision: DType, target: Target | None) -> Simulation:
    limits = weight_only(precision, target)
    return Simulation() if limits is None else Simulation(activations=limits.computes_in)


def _shares(made: Bench, precisions: Sequence[DType]) -> Iterator[tuple[DType, float]]:
    """The share of correct samples with all layers at each precision."""
    _demand_floats(made)
    if made.data.labels is not None:
        for precision in precisions:
            share = made.measure({layer.op: precision for layer in made.layers}).accuracy
            assert share is not None
            yield precision, share
        return
    expected = _top_class(made, {})
    for precision in precisions:
        found = _top_class(made, {layer.op: precision for layer in made.layers})
        yield precision, float((found == expected).mean())


def _demand_floats(made: Bench) -> None:
    graph = made.graph
    outputs = [graph.tensors[graph.ops[layer.op].outputs[0]] for layer in made.layers]
    narrow = next((each for each in outputs if each.follows_precision and each.dtype.family != "float"), None)
    if narrow is not None:
        raise SizeupError(
            f"{graph.name}: its layers are {narrow.dtype} already, and accuracy is measured on a float"
            " model; give that one, or the accuracy with --accuracy FILE.csv"
        )


def _top_class(made: Bench, assignment: Mapping[int, DType]) -> Any:
    """Of every sample the class with the greatest output; -1 if an output is not a number."""
    outputs = np.moveaxis(made.outputs(assignment), made.options.axis, -1)
    if outputs.ndim < 2 or outputs.shape[-1] < 2:
        raise SizeupError(
            f"{made.graph.name}: outputs of shape {outputs.shape} have no classes to compare; add labels (y)"
        )
    return np.where(np.isnan(outputs).any(axis=-1), -1, outputs.argmax(axis=-1))


class _Line(NamedTuple):
    number: int
    cells: Mapping[str, str]


def read_accuracy(path: Path) -> Accuracy:
    """Accuracy from a CSV file with the columns precision, accuracy and, if it matters, size.

    An accuracy is a share from 0 to 1; an empty cell is unknown. Other columns are ignored. The
    precision_tradeoffs.csv of the older hardware module is read too, and of its sweeps the means.
    """
    shares: dict[tuple[str, int | None], list[float]] = {}
    for line in _lines(path):
        where = f"{path}: line {line.number}"
        share = _share(line.cells["accuracy"], where)
        if share is None:
            continue
        key = _precision(line.cells["precision"], where), _size(line.cells.get("size", ""), where)
        others = shares.setdefault(key, [])
        if others and others[0] != share and _SWEEP_TITLE not in line.cells:
            raise SizeupError(f"{where}: {key[0]} has another accuracy above ({others[0]:g})")
        others.append(share)
    if not shares:
        raise SizeupError(f"{path}: no line has an accuracy; {_ADVICE}")
    means = {key: math.fsum(each) / len(each) for key, each in shares.items()}
    return Accuracy(means, f"from {path.name}")


def _lines(path: Path) -> Iterator[_Line]:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SizeupError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise SizeupError(f"{path}: larger than {_MOST_BYTES:,} bytes, so not a table of accuracy; {_ADVICE}")
    try:
        rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        titles = [_OLDER_TITLES.get(each.strip(), each.strip()) for each in next(rows, [])]
        _check_titles(titles, path)
        for cells in rows:
            if not any(cells):
                continue
            if len(cells) != len(titles):
                raise SizeupError(
                    f"{path}: line {rows.line_num}: {len(cells)} cells for {len(titles)} columns"
                )
            yield _Line(rows.line_num, dict(zip(titles, map(str.strip, cells), strict=True)))
    except UnicodeDecodeError as error:
        raise SizeupError(f"{path}: not UTF-8 text; {_ADVICE}") from error
    except csv.Error as error:
        raise SizeupError(f"{path}: not a CSV file: {error}; {_ADVICE}") from error


def _check_titles(titles: Sequence[str], path: Path) -> None:
    for name in ("precision", "accuracy"):
        if titles.count(name) != 1:
            problem = "no column" if name not in titles else "more than one column"
            raise SizeupError(f"{path}: {problem} {name!r}; {_ADVICE}")


def _share(text: str, where: str) -> float | None:
    if not text:
        return None
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise SizeupError(f"{where}: accuracy is {text[:40]!r}, not a share from 0 to 1 such as 0.982")
    return share


def _precision(text: str, where: str) -> str:
    try:
        return precision_name(dtypes.precision(text[:40]))
    except SizeupError as error:
        raise SizeupError(f"{where}: {error}") from None


def _size(text: str, where: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 8 and 0 < int(text) <= _MOST_SIZE):
        raise SizeupError(f"{where}: size is {text[:40]!r}, not an input size such as 224")
    return int(text)
