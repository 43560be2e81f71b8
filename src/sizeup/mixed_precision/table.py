"""The sensitivity table (losses by layer and precision), and the data it is measured on."""

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
from sizeup.formats.simulated_rounding import Array
from sizeup.mixed_precision.layers import Layer
from sizeup.mixed_precision.losses import Losses, losses_from, number, plain

# Measures of loss, by which assignments are ranked: greater is worse.
LossMeasure = Literal["kl", "noise", "accuracy", "loss"]
_LOSS_MEASURES = ("kl", "noise", "accuracy", "loss")


@dataclass(frozen=True, slots=True)
class Baseline:
    """Accuracy and cross-entropy of the float network; None without labels."""

    accuracy: float | None = None
    cross_entropy: float | None = None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The losses of one layer alone at a precision; see `Losses`."""

    layer: Layer
    precision: str
    sqnr_db: float
    kl: float | None
    accuracy: float | None
    loss: float | None

    @property
    def losses(self) -> Losses:
        """The losses without the layer."""
        return Losses(self.sqnr_db, self.kl, self.accuracy, self.loss)


@dataclass(frozen=True, slots=True)
class SensitivityTable:
    """Losses by layer and precision, of the float network, and with all layers at each precision."""

    name: str
    layers: tuple[Layer, ...]
    precisions: tuple[str, ...]  # fp32, which has no loss, and the measured ones
    rows: tuple[Sensitivity, ...]
    baseline: Baseline
    uniform: Mapping[str, Losses]
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def losses(self, measure: LossMeasure | None = None) -> dict[int, dict[str, float]]:
        """Returns one loss by op and precision, for an assignment to minimize.

        By default the divergence, or the noise if outputs are not distributions. For accuracy it is the
        accuracy lost, which may be negative.
        """
        measure = measure or self.default_measure
        if measure not in _LOSS_MEASURES:
            raise SizeupError(f"unknown loss {measure!r}; known: {', '.join(_LOSS_MEASURES)}")
        by_op: dict[int, dict[str, float]] = {layer.op: {self.precisions[0]: 0.0} for layer in self.layers}
        for row in self.rows:
            by_op[row.layer.op][row.precision] = self.loss_of(row.losses, measure)
        return by_op

    @property
    def default_measure(self) -> LossMeasure:
        """The divergence, or the noise if outputs are not distributions."""
        return "noise" if self.settings.get("meaning") == "values" else "kl"

    def loss_of(self, losses: Losses, measure: LossMeasure) -> float:
        """Returns one number from measured losses: the greater, the worse."""
        if measure == "noise":
            return losses.noise
        value = {"kl": losses.kl, "accuracy": losses.accuracy, "loss": losses.loss}[measure]
        if value is None:
            raise SizeupError(
                f"{measure} was not measured; it needs {'labels' if measure != 'kl' else 'logits'}"
            )
        if measure != "accuracy":
            return value
        assert self.baseline.accuracy is not None
        return self.baseline.accuracy - value

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {
            "name": self.name,
            "precisions": list(self.precisions),
            "layers": [asdict(layer) for layer in self.layers],
            "baseline": {name: plain(value) for name, value in asdict(self.baseline).items()},
            "rows": [
                {"op": row.layer.op, "precision": row.precision, **row.losses.to_dict()} for row in self.rows
            ],
            "uniform": {name: losses.to_dict() for name, losses in self.uniform.items()},
            "settings": dict(self.settings),
            "notes": list(self.notes),
        }


def table_from(content: Mapping[str, Any]) -> SensitivityTable:
    """Reverses `SensitivityTable.to_dict`."""
    try:
        model_layers = tuple(Layer(**row) for row in content["layers"])
        by_op = {layer.op: layer for layer in model_layers}
        rows = []
        for row in content["rows"]:
            losses = losses_from(row)
            values = losses.sqnr_db, losses.kl, losses.accuracy, losses.loss
            rows.append(Sensitivity(by_op[row["op"]], row["precision"], *values))
        return SensitivityTable(
            content["name"],
            model_layers,
            tuple(content["precisions"]),
            tuple(rows),
            Baseline(**{name: number(value) for name, value in content["baseline"].items()}),
            {name: losses_from(row) for name, row in content["uniform"].items()},
            dict(content["settings"]),
            tuple(content["notes"]),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise SizeupError(f"not a sensitivity table: {type(error).__name__}: {error}") from error


# An array of samples, one array per input or by input name, or an .npy or .npz file.
DataSource: TypeAlias = Any
_EXPECTED_DATA = "give an array of samples, arrays by input name, or an .npy or .npz file"


@dataclass(frozen=True, slots=True)
class Data:
    """Samples along the first axis of every array; `names` is empty if inputs are not named."""

    arrays: tuple[Array, ...]
    names: tuple[str, ...] = ()
    labels: Array | None = None

    def __len__(self) -> int:
        return len(self.arrays[0])

    def batches(self, size: int, padded: bool = False) -> list[tuple[Array, ...]]:
        """Returns batches of `size` samples; a padded last batch repeats the last sample."""
        batches = []
        for start in range(0, len(self), size):
            batch = tuple(array[start : start + size] for array in self.arrays)
            missing = size - len(batch[0])
            if padded and missing:
                batch = tuple(np.concatenate([array, *[array[-1:]] * missing]) for array in batch)
            batches.append(batch)
        return batches

    def digest(self) -> str:
        """Returns a content digest."""
        digest = hashlib.sha256(repr(self.names).encode())
        for array in (*self.arrays, *(() if self.labels is None else (self.labels,))):
            digest.update(f"{array.shape}{array.dtype.str}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def load_data(source: DataSource, labels: Any = None) -> Data:
    """Returns data from arrays or a file; an array `y` is the labels, `x` or the other arrays are inputs."""
    if isinstance(source, Data):
        return source
    if isinstance(source, str | os.PathLike):
        source = _read(Path(source))
    if isinstance(source, Mapping):
        arrays = {str(name): np.asarray(array) for name, array in source.items()}
        labels = arrays.pop("y", None) if labels is None else labels
        names = () if list(arrays) == ["x"] else tuple(arrays)
        return _checked(tuple(arrays.values()), names, labels)
    if isinstance(source, Sequence) and source and all(hasattr(array, "shape") for array in source):
        return _checked(tuple(map(np.asarray, source)), (), labels)
    return _checked((np.asarray(source),), (), labels)


def _checked(arrays: tuple[Array, ...], names: tuple[str, ...], labels: Any) -> Data:
    classes = None if labels is None else np.asarray(labels)
    counts = {
        len(array) if array.ndim else 0 for array in (*arrays, *(() if classes is None else (classes,)))
    }
    if not arrays or counts == {0}:
        raise SizeupError(f"no data; {_EXPECTED_DATA}")
    if len(counts) > 1:
        raise SizeupError(f"inputs and labels have different numbers of samples: {sorted(counts)}")
    if any(array.dtype == object for array in arrays):
        raise SizeupError(f"arrays of objects are not supported; {_EXPECTED_DATA}")
    if classes is not None and not _are_classes(classes):
        raise SizeupError(
            f"labels (y) must be class indices from 0; got {classes.dtype} values such as {classes.flat[0]}"
        )
    return Data(arrays, names, classes)


def _are_classes(labels: Array) -> bool:
    if labels.dtype.kind == "f":
        return bool((np.isfinite(labels) & (labels == np.floor(labels))).all())
    return labels.dtype.kind in "iub"


def _read(path: Path) -> Any:
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        with content:
            return {name: content[name] for name in content.files}
    except FileNotFoundError as error:
        raise SizeupError(f"{path}: no such file; {_EXPECTED_DATA}") from error
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
        raise SizeupError(f"{path}: cannot be read as data ({error}); {_EXPECTED_DATA}") from error
