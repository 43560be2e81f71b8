"""The table of losses by layer and precision, and the data that they are measured on."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias
from zipfile import BadZipFile

import numpy as np

from sizeup.errors import SizeupError
from sizeup.formats.rounding import Array
from sizeup.mixed_precision.layers import Layer
from sizeup.mixed_precision.losses import Losses, losses_from, number, plain

# What a choice of precisions may be judged by: all grow as the network gets worse.
Judged = Literal["kl", "noise", "accuracy", "loss"]
_JUDGED = ("kl", "noise", "accuracy", "loss")


@dataclass(frozen=True, slots=True)
class Baseline:
    """The float network; None without labels."""

    accuracy: float | None = None
    cross_entropy: float | None = None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """One layer alone at a precision; see `Losses`."""

    layer: Layer
    precision: str
    sqnr_db: float
    kl: float | None
    accuracy: float | None
    loss: float | None

    @property
    def losses(self) -> Losses:
        """The same without the layer."""
        return Losses(self.sqnr_db, self.kl, self.accuracy, self.loss)


@dataclass(frozen=True, slots=True)
class SensitivityTable:
    """Losses by layer and precision, the float network, and every precision for all layers at once."""

    name: str
    layers: tuple[Layer, ...]
    precisions: tuple[str, ...]  # fp32, which loses nothing, and those that were measured
    rows: tuple[Sensitivity, ...]
    baseline: Baseline
    uniform: Mapping[str, Losses]
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def losses(self, judged: Judged | None = None) -> dict[int, dict[str, float]]:
        """By operator and precision, what a choice of precisions would have the least of.

        By default the divergence, or the noise where outputs are no distributions. Accuracy is how much of it
        is lost, and may be below zero.
        """
        judged = judged or self.usual_measure
        if judged not in _JUDGED:
            raise SizeupError(f"no loss is called {judged!r}; there are {', '.join(_JUDGED)}")
        found: dict[int, dict[str, float]] = {layer.op: {self.precisions[0]: 0.0} for layer in self.layers}
        for row in self.rows:
            found[row.layer.op][row.precision] = self.loss_of(row.losses, judged)
        return found

    @property
    def usual_measure(self) -> Judged:
        """The divergence, or the noise where outputs are no distributions."""
        return "noise" if self.settings.get("meaning") == "values" else "kl"

    def loss_of(self, losses: Losses, judged: Judged) -> float:
        """One number of what was measured: the greater, the worse."""
        if judged == "noise":
            return losses.noise
        value = {"kl": losses.kl, "accuracy": losses.accuracy, "loss": losses.loss}[judged]
        if value is None:
            raise SizeupError(f"{judged} was not measured; give {'labels' if judged != 'kl' else 'logits'}")
        if judged != "accuracy":
            return value
        assert self.baseline.accuracy is not None
        return self.baseline.accuracy - value

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "name": self.name,
            "precisions": list(self.precisions),
            "layers": [asdict(layer) for layer in self.layers],
            "baseline": {name: plain(value) for name, value in asdict(self.baseline).items()},
            "rows": [
                {"op": row.layer.op, "precision": row.precision, **row.losses.to_dict()} for row in self.rows
            ],
            "uniform": {name: each.to_dict() for name, each in self.uniform.items()},
            "settings": dict(self.settings),
            "notes": list(self.notes),
        }


def table_from(content: Mapping[str, Any]) -> SensitivityTable:
    """What `to_dict` gave."""
    try:
        known = tuple(Layer(**each) for each in content["layers"])
        by_op = {layer.op: layer for layer in known}
        rows = []
        for each in content["rows"]:
            row = losses_from(each)
            rows.append(
                Sensitivity(by_op[each["op"]], each["precision"], row.sqnr_db, row.kl, row.accuracy, row.loss)
            )
        return SensitivityTable(
            content["name"],
            known,
            tuple(content["precisions"]),
            tuple(rows),
            Baseline(**{name: number(value) for name, value in content["baseline"].items()}),
            {name: losses_from(each) for name, each in content["uniform"].items()},
            dict(content["settings"]),
            tuple(content["notes"]),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise SizeupError(f"not a table of sensitivities: {type(error).__name__}: {error}") from error


# An array of samples, one for each input or by the inputs' names, or an .npy or .npz file.
Given: TypeAlias = Any
_ADVICE = "data is an array of samples, several by the inputs' names, or an .npy or .npz file"


@dataclass(frozen=True, slots=True)
class Data:
    """Samples along the first axis of every array; names where inputs were named."""

    arrays: tuple[Array, ...]
    names: tuple[str, ...] = ()
    labels: Array | None = None

    def __len__(self) -> int:
        return len(self.arrays[0])

    def batches(self, size: int, padded: bool = False) -> list[tuple[Array, ...]]:
        """So many samples at a time; a padded last batch repeats the last sample."""
        found = []
        for start in range(0, len(self), size):
            batch = tuple(each[start : start + size] for each in self.arrays)
            missing = size - len(batch[0])
            if padded and missing:
                batch = tuple(np.concatenate([each, *[each[-1:]] * missing]) for each in batch)
            found.append(batch)
        return found

    def digest(self) -> str:
        """What tells this data from any other."""
        found = hashlib.sha256(repr(self.names).encode())
        for each in (*self.arrays, *(() if self.labels is None else (self.labels,))):
            found.update(f"{each.shape}{each.dtype.str}".encode())
            found.update(np.ascontiguousarray(each).tobytes())
        return found.hexdigest()


def data_of(given: Given, labels: Any = None) -> Data:
    """Data however it is given; a file's `y` are labels, its `x` or its other arrays are inputs."""
    if isinstance(given, Data):
        return given
    if isinstance(given, str | os.PathLike):
        given = _read(Path(given))
    if isinstance(given, Mapping):
        arrays = {str(name): np.asarray(each) for name, each in given.items()}
        labels = arrays.pop("y", None) if labels is None else labels
        named = () if list(arrays) == ["x"] else tuple(arrays)
        return _checked(tuple(arrays.values()), named, labels)
    if isinstance(given, Sequence) and given and all(hasattr(each, "shape") for each in given):
        return _checked(tuple(map(np.asarray, given)), (), labels)
    return _checked((np.asarray(given),), (), labels)


def _checked(arrays: tuple[Array, ...], names: tuple[str, ...], labels: Any) -> Data:
    marks = None if labels is None else np.asarray(labels)
    counts = {len(each) if each.ndim else 0 for each in (*arrays, *(() if marks is None else (marks,)))}
    if not arrays or counts == {0}:
        raise SizeupError(f"there is no data: {_ADVICE}")
    if len(counts) > 1:
        raise SizeupError(f"inputs and labels have different numbers of samples: {sorted(counts)}")
    if any(each.dtype == object for each in arrays):
        raise SizeupError(f"arrays of objects are no numbers: {_ADVICE}")
    if marks is not None and not _are_classes(marks):
        raise SizeupError(
            f"labels (y) are numbers of classes from 0, not {marks.dtype} such as {marks.flat[0]}"
        )
    return Data(arrays, names, marks)


def _are_classes(marks: Array) -> bool:
    if marks.dtype.kind == "f":
        return bool((np.isfinite(marks) & (marks == np.floor(marks))).all())
    return marks.dtype.kind in "iub"


def _read(path: Path) -> Any:
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            return {name: found[name] for name in found.files}
    except (
        OSError,
        ValueError,
        EOFError,
        LookupError,
        NotImplementedError,
        MemoryError,
        BadZipFile,
        zlib.error,
    ) as error:
        raise SizeupError(f"{path}: cannot be read as data ({error}); {_ADVICE}") from error
