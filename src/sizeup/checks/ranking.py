"""Fit and latency of a model on every board: the model is counted once, and targets share what they can."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sizeup import units
from sizeup.backends import EXTERNAL_RAM, MemoryFit, Needs, backend_of, fit_memory
from sizeup.errors import TargetError
from sizeup.formats.names import is_unreadable
from sizeup.latency import Estimate, Execution, execution_of
from sizeup.targets import (
    LATENCY_STANDINGS,
    Board,
    LatencyStanding,
    MemoryAmounts,
    Target,
    current_catalog,
)


class Reason(NamedTuple):
    """Why a board does not fit, or why that is undetermined."""

    about: str  # RAM, operators, flash, latency or runtime
    text: str


@dataclass(frozen=True, slots=True)
class BoardFit:
    """The fit and latency of a model on a board with one of its runtimes."""

    target: Target
    memory_fit: MemoryFit
    fits: bool | None
    reasons: tuple[Reason, ...]
    low_seconds: float | None = None  # of the 90 % interval, or a lower bound if there is no `high_seconds`
    high_seconds: float | None = None
    seconds: float | None = None  # expected; None if only a lower bound is known; Vela's has no interval
    standing: LatencyStanding = "unknown"
    latency_missing: str = ""  # why there is no latency
    price: float | None = None
    npu_missing: str = ""  # why another runtime is shown than that of the board's Ethos-U

    @property
    def board(self) -> Board:
        """The board of the target."""
        assert self.target.board is not None
        return self.target.board

    @property
    def available_ram_bytes(self) -> int | None:
        """The RAM for the model: the limit less the reserve; None if unknown."""
        ram = self.memory_fit.ram
        return None if ram.limit_bytes is None else max(ram.limit_bytes - ram.reserve_bytes, 0)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Reservations about the fit."""
        return (*self.memory_fit.caveats, *self.npu_caveats)

    @property
    def npu_caveats(self) -> tuple[str, ...]:
        """That the row is not for the Ethos-U of the board, if so."""
        return (f"not on the Ethos-U: {self.npu_missing}",) if self.npu_missing else ()


def rank_boards(
    needs: Needs, boards: Iterable[Board], *, under: float | None = None, application_ram: int | None = None
) -> list[BoardFit]:
    """One row per board, with the runtime that suits the model best, in the order of the boards.

    `under` limits the latency in seconds; `application_ram` replaces the reserve of all boards.
    """
    catalog, estimates = current_catalog(), _Estimates(needs)
    rows = []
    for board in boards:
        known_targets = catalog.targets_of(board)
        targets = [
            target
            for target in known_targets
            if not is_unreadable(needs.graph.format, target.runtime.formats)
        ]
        fits = [
            _board_fit(needs, target, estimates, under, application_ram)
            for target in targets or known_targets
        ]
        if fits:
            rows.append(_with_npu_missing(_best(fits), fits))
    return rows


def _with_npu_missing(row: BoardFit, others: Sequence[BoardFit]) -> BoardFit:
    """The row of a board, with the reason if it is not that of the Ethos-U, which may be much faster."""
    for other in others:
        if _is_compiled(other) and not _is_compiled(row) and other.fits is not False:
            return replace(
                row, npu_missing="; ".join(reason.text for reason in other.reasons) or other.latency_missing
            )
    return row


def _is_compiled(row: BoardFit) -> bool:
    return backend_of(row.target).compiles_models


class _Estimates:
    """Latency estimates: boards with the same device and runtime share one, runtimes the fused kernels."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self._estimates: dict[str, Estimate | str] = {}
        self._executed: dict[tuple[str, ...], Execution] = {}

    def of(self, target: Target) -> Estimate | str:
        name = f"{target.calibration_name} {target.device.bandwidth}"
        if name not in self._estimates:
            fusions = target.runtime.fusions or ()
            if fusions not in self._executed:
                self._executed[fusions] = execution_of(self._needs.cost, self._needs.precision, fusions)
            try:
                self._estimates[name] = self._estimate(target, self._executed[fusions])
            except TargetError as error:
                self._estimates[name] = str(error)
        return self._estimates[name]

    def _estimate(self, target: Target, executed: Execution) -> Estimate:
        return backend_of(target).estimate(self._needs, executed=executed)


def _board_fit(
    needs: Needs, target: Target, estimates: _Estimates, under: float | None, application_ram: int | None
) -> BoardFit:
    fit = _memory_fit(needs, target, application_ram)
    if fit.fits is False:
        return BoardFit(target, fit, False, _memory_reasons(fit))
    prediction = estimates.of(target)
    if isinstance(prediction, str):
        row = BoardFit(target, fit, fit.fits, (), latency_missing=prediction)
    else:
        row = _with_latency(BoardFit(target, fit, fit.fits, ()), prediction)
    return _with_verdict(row, under)


def _with_latency(row: BoardFit, prediction: Estimate) -> BoardFit:
    has_interval = prediction.low is not None
    if prediction.basis == "vela":
        return replace(row, seconds=prediction.seconds, standing="vela")
    if prediction.basis == "calibrated" or prediction.basis == "instructions":
        standing: LatencyStanding = prediction.basis
    else:
        standing = "slowdown" if has_interval else "data sheet only"
    least = prediction.seconds if prediction.low is None else prediction.low
    if row.memory_fit.ram.is_external or not has_interval or prediction.high is None:
        return replace(row, low_seconds=least, standing=standing)
    return replace(
        row, low_seconds=least, high_seconds=prediction.high, seconds=prediction.seconds, standing=standing
    )


def _with_verdict(row: BoardFit, under: float | None) -> BoardFit:
    """The row with its verdict on memory and latency, and the reasons."""
    reasons = _memory_reasons(row.memory_fit) if row.memory_fit.fits is None else ()
    in_time = True if under is None else _in_time(row, under)
    if in_time is False:
        least = units.duration(row.low_seconds or 0.0)
        return replace(row, fits=False, reasons=(Reason("latency", f"at least {least}"),))
    if in_time is None:
        reasons = (*reasons, Reason("latency", _undetermined_latency(row)))
    return replace(row, fits=None if reasons else True, reasons=reasons)


def _in_time(row: BoardFit, under: float) -> bool | None:
    if row.low_seconds is not None and row.low_seconds > under:
        return False
    return True if row.high_seconds is not None and row.high_seconds <= under else None


def _undetermined_latency(row: BoardFit) -> str:
    if row.seconds is not None and row.low_seconds is None:
        return f"Vela's estimate has no prediction interval: {units.duration(row.seconds)}"
    if row.low_seconds is None:
        return row.latency_missing or "the latency is not known"
    if row.memory_fit.ram.is_external:
        return EXTERNAL_RAM
    if row.high_seconds is None:
        return f"only a lower bound of the latency is known: {units.duration(row.low_seconds)}"
    low, high = units.duration(row.low_seconds), units.duration(row.high_seconds)
    return f"the 90 % interval of the latency includes the limit: {low} to {high}"


def _memory_fit(needs: Needs, target: Target, application_ram: int | None) -> MemoryFit:
    """The fit of a target; the application's RAM is taken from what is usable, in place of the reserve."""
    board, device = target.board, target.device
    if application_ram is None or board is None:
        return fit_memory(needs, target)
    fit = fit_memory(needs, target)
    if fit.flash is None:  # an operating system: weights are in RAM too
        total = device.ram_bytes
        return fit if total is None else fit_memory(needs, target, ram=max(total - application_ram, 0))
    limit = board.ram_limit(device)
    if limit is None:
        return fit
    flash = None if board.usable is None else board.usable.flash_bytes
    note = "--ram sets the rest aside for the application"
    usable = MemoryAmounts("--ram", max(limit - application_ram, 0), flash, note)
    reserve = None if board.reserve is None else replace(board.reserve, ram_bytes=None)
    return fit_memory(needs, replace(target, board=replace(board, usable=usable, reserve=reserve)))


def _memory_reasons(fit: MemoryFit) -> tuple[Reason, ...]:
    if fit.unsupported_reason:
        return (Reason("runtime", fit.unsupported_reason),)
    verdict = False if any(space.fits is False for space in fit.memories) else None
    reasons = []
    for space in fit.memories:
        if space.fits is not verdict:
            continue
        about, least, limit = space.title, units.size(space.low_bytes), units.size(space.limit_bytes or 0)
        if verdict is False:
            text = f"at least {least} needed, {limit} usable"
        elif space.unknown:
            text = "; ".join(space.unknown)
            about = "operators" if fit.missing_operators and space is fit.ram else about
        else:
            most = "an unknown amount" if space.high_bytes is None else units.size(space.high_bytes)
            reserve = f", {units.size(space.reserve_bytes)} reserved" if space.reserve_bytes else ""
            text = f"{least} to {most} needed, {limit} usable{reserve}"
        reasons.append(Reason(about, text))
    return tuple(reasons)


def _best(rows: Sequence[BoardFit]) -> BoardFit:
    """The runtime to show for a board: one that fits, with the best standing, then the shortest latency.

    If a runtime with a prediction interval is certainly too slow, the board is: runtimes of which only a
    lower bound of the latency is known do not make it undetermined, except that of an Ethos-U. Reference
    kernels of TFLite Micro count only if no other runtime can hold the model, because they are much slower.
    """
    optimized = [row for row in rows if not backend_of(row.target).has_plain_kernels]
    if any(row.memory_fit.fits is not False for row in optimized):
        rows = optimized
    fitting = [row for row in rows if row.fits]
    if fitting:
        return min(fitting, key=_preference)
    too_slow = [row for row in rows if row.fits is False and row.high_seconds is not None]
    undetermined = [
        row
        for row in rows
        if row.fits is None and not (too_slow and row.seconds is None and not _is_compiled(row))
    ]
    if undetermined:
        return min(undetermined, key=_preference)
    return min(too_slow or [row for row in rows if row.fits is False] or rows, key=_preference)


def _preference(row: BoardFit) -> tuple[bool, int, float]:
    """An estimate before a lower bound, the closer standing, the shorter latency."""
    least = float("inf") if row.low_seconds is None else row.low_seconds
    seconds = least if row.seconds is None else row.seconds
    return row.seconds is None, LATENCY_STANDINGS.index(row.standing), seconds
