"""The boards that a model fits on, in the order of price or size."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup import units
from sizeup.checks.ranking import BoardFit
from sizeup.results.result import Result


@dataclass(frozen=True, slots=True, repr=False)
class Ranking(Result):
    """All boards with the verdict on a model: those that fit, those that are undetermined, and the others."""

    model: str
    format: str
    rows: tuple[BoardFit, ...]  # in the order of the ranking
    under_seconds: float | None = None
    application_ram_bytes: int | None = None
    has_prices: bool = False
    unknown_prices: tuple[str, ...] = ()  # names in the price list that are no board

    def __repr__(self) -> str:
        return f"<{self.model} fits on {len(self.fits)} of {units.plural(len(self.rows), 'board')}>"

    @property
    def fits(self) -> tuple[BoardFit, ...]:
        """The boards that the model fits on."""
        return tuple(row for row in self.rows if row.fits)

    @property
    def undetermined(self) -> tuple[BoardFit, ...]:
        """The boards for which that is undetermined."""
        return tuple(row for row in self.rows if row.fits is None)

    @property
    def unfit(self) -> tuple[BoardFit, ...]:
        """The boards that the model does not fit on."""
        return tuple(row for row in self.rows if row.fits is False)
