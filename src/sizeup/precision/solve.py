"""One option of each group, at the least loss, under any number of limits: exact, and quick when large.

A relaxation by linear programming gives a bound and prices for the limits. An option whose loss at those
prices lies further above the best of its group than a solution lies above the bound can be in no better
solution. So CP-SAT only looks at the few that are left, and what it finds is proven over all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from sizeup.errors import MissingLibrary

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Codes: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

Status = Literal["optimal", "best found"]
# Options beside the best of each group that are looked at first.
_FIRST_CORE = 60
_WIDER = 4.0
# CP-SAT computes with integers: this many steps to a limit.
_STEPS = 2**40


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """The amounts of some options must not add up to more than this."""

    name: str
    options: Codes
    amounts: Floats
    most: float

    def of(self, picked: Codes) -> float:
        """What a choice of options adds up to."""
        chosen = np.isin(self.options, picked)
        return float(self.amounts[chosen].sum())


@dataclass(frozen=True, slots=True, eq=False)
class Picked:
    """An option of each group, what it loses, and what no other pick goes below."""

    options: Codes
    loss: float
    bound: float
    status: Status
    prices: tuple[float, ...]  # of every limit: loss that one more unit of it saves, where it is relaxed


def pick(group: Codes, loss: Floats, limits: Sequence[Limit], time_limit: float = 60.0) -> Picked | None:
    """The pick of least loss; None where none keeps to the limits."""
    relaxed = _relaxed(group, loss, limits)
    if relaxed is None:
        return None
    bound, prices = relaxed
    priced = loss + _priced(prices, limits, len(loss))
    best = np.full(int(group.max()) + 1, np.inf)
    np.minimum.at(best, group, priced)
    above = priced - best[group]
    first = min(len(best) + _FIRST_CORE, len(above) - 1)
    reach = float(np.partition(above, first)[first])
    while True:
        kept = above <= reach
        found = _search(group, loss, limits, kept, time_limit)
        everything = bool(kept.all())
        if found is None and everything:
            return None
        if found is None:
            reach = min(max(reach * _WIDER, 1e-12), float(above.max()))
            continue
        options, proven = found
        value = float(loss[options].sum())
        if value - bound > reach and not everything and proven:
            reach = max(value - bound, reach * (1 + 1e-9))
            continue
        # Once more without what is now ruled out: beside a large loss small ones would be rounded away.
        nearer = above <= (value - bound) * (1 + 1e-9) + 1e-300
        again = _search(group, loss, limits, nearer, time_limit) if (kept & ~nearer).any() else None
        if again is not None and float(loss[again[0]].sum()) < value:
            options, proven = again
            value = float(loss[options].sum())
        return Picked(options, value, bound, "optimal" if proven else "best found", prices)


def _priced(prices: tuple[float, ...], limits: Sequence[Limit], count: int) -> Floats:
    total = np.zeros(count)
    for price, limit in zip(prices, limits, strict=True):
        np.add.at(total, limit.options, price * limit.amounts)
    return total


def _relaxed(group: Codes, loss: Floats, limits: Sequence[Limit]) -> tuple[float, tuple[float, ...]] | None:
    """The least loss where options may be mixed, and the price of each limit; None where even that fails."""
    try:
        from scipy.optimize import linprog
        from scipy.sparse import coo_array, csr_array
    except ImportError:
        raise MissingLibrary("choosing precisions", "scipy", "solve") from None
    count, groups = len(loss), int(group.max()) + 1
    scale = [
        max(float(np.abs(limit.amounts).mean()), 1e-300) if len(limit.amounts) else 1.0 for limit in limits
    ]
    unit = max(float(loss.mean()), 1e-300)
    above = _matrix(
        [(each.options, each.amounts / by) for each, by in zip(limits, scale, strict=True)], count
    )
    one = csr_array(coo_array((np.ones(count), (group, np.arange(count))), shape=(groups, count)))
    most = np.array([limit.most / by for limit, by in zip(limits, scale, strict=True)])
    found = linprog(
        loss / unit,
        A_ub=above if limits else None,
        b_ub=most if limits else None,
        A_eq=one,
        b_eq=np.ones(groups),
        bounds=(0, 1),
        method="highs",
    )
    if found.status == 2:
        return None
    prices = (
        []
        if not limits
        else [
            max(-float(each), 0.0) / by * unit
            for each, by in zip(found.ineqlin.marginals, scale, strict=True)
        ]
    )
    # The bound that these prices prove, whatever the solver's tolerance.
    priced = loss + _priced(tuple(prices), limits, count)
    best = np.full(groups, np.inf)
    np.minimum.at(best, group, priced)
    bound = float(best.sum()) - sum(price * limit.most for price, limit in zip(prices, limits, strict=True))
    return bound, tuple(prices)


def _matrix(rows: Sequence[tuple[Codes, Floats]], count: int) -> Any:
    """Rows of columns and values as a sparse matrix."""
    from scipy.sparse import csr_array

    ends = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    columns = np.concatenate([columns for columns, _ in rows]) if rows else np.zeros(0, np.int64)
    values = np.concatenate([values for _, values in rows]) if rows else np.zeros(0)
    return csr_array((values, columns, ends), shape=(len(rows), count))


def _search(
    group: Codes, loss: Floats, limits: Sequence[Limit], kept: Flags, seconds: float
) -> tuple[Codes, bool] | None:
    """The best pick among some options, and whether that is proven; None where there is none."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise MissingLibrary("choosing precisions", "ortools", "solve") from None
    options = np.flatnonzero(kept)
    members = np.bincount(group[options], minlength=int(group.max()) + 1)
    if not members.all():
        return None
    is_alone = members[group[options]] == 1
    alone, free = options[is_alone], options[~is_alone]
    model = cp_model.CpModel()
    variable = {option: model.new_bool_var("") for option in free.tolist()}
    by_group: dict[int, list[Any]] = {}
    for option, each in variable.items():
        by_group.setdefault(int(group[option]), []).append(each)
    for one in by_group.values():
        model.add_exactly_one(one)
    for limit in limits:
        _add(cp_model, model, limit, alone, variable)
    step = _STEPS / (float(loss[free].sum()) or 1.0)
    weights = [round(each * step) for each in loss[free].tolist()]
    model.minimize(cp_model.LinearExpr.weighted_sum(list(variable.values()), weights))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    chosen = [option for option, each in variable.items() if solver.boolean_value(each)]
    picked = np.concatenate([alone, np.array(chosen, np.int64)])
    return picked[np.argsort(group[picked])], status == cp_model.OPTIMAL


def _add(cp_model: Any, model: Any, limit: Limit, alone: Codes, variable: dict[int, Any]) -> None:
    """A limit in integers: whole amounts stay exact, others are rounded up, so that it surely holds."""
    whole = bool((limit.amounts == np.floor(limit.amounts)).all()) and abs(limit.most) < _STEPS
    left = limit.most - limit.of(alone)
    by = 1.0 if whole else _STEPS / (abs(limit.most) or 1.0)
    terms = [
        (variable[option], math.ceil(amount * by))
        for option, amount in zip(limit.options.tolist(), limit.amounts.tolist(), strict=True)
        if option in variable
    ]
    if terms:
        variables, weights = zip(*terms, strict=True)
        # Amounts are rounded up, so the limit is loosened by as much: a budget may be used to the last bit.
        most = math.floor(left * by) + (0 if whole else len(terms))
        model.add(cp_model.LinearExpr.weighted_sum(list(variables), list(weights)) <= most)
    elif left < 0:
        model.add_bool_or([])
