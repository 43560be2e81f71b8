"""The table of losses by layer and precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from sizeup.errors import SizeupError
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
