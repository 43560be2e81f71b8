"""Fit the rates of serving engines to the rows that are not frozen, and write the shipped calibrations.

python benchmarks/serving_fit.py             # print held-out errors
python benchmarks/serving_fit.py --write     # and write src/sizeup/serving/steps/calibrations.toml
python benchmarks/serving_fit.py --frozen    # and score the frozen rows: once, when the form is final

With both, the tables of docs/llm-times.md are written. Held-out errors leave one model out; prediction
intervals leave one family of models out. Rows of `gap_sla` count a tenth, because their operating points were
chosen by a predictor.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from math import lgamma
from pathlib import Path

import numpy as np
from serving_regression import ENGINES, SYSTEMS, Table, fit, predicted, table_of, values_of
from serving_rows import CONFIGS, ROWS, Point, errors, measured, point, rows_of
from serving_split import CONFIGURATION, is_frozen

from sizeup.serving.steps.rates import Rates

ROOT = Path(__file__).resolve().parents[1]
# Engines whose interval did not hold for frozen rows: SGLang's covered 80 % of TPOTs, families held out.
WITHOUT_INTERVAL = frozenset({"sglang"})
CALIBRATIONS = ROOT / "src" / "sizeup" / "serving" / "steps" / "calibrations.toml"
PAGE = ROOT / "docs" / "llm-times.md"
BLOCK = re.compile(r"(<!-- held-out errors -->\n).*?(<!-- end -->)", re.DOTALL)
SOURCE = (
    "silicon_sample.csv of https://github.com/ai-dynamo/aiconfigurator (commit 095f58a, Apache-2.0):"
    " InferenceMAX and grids on H100, cleaned; one in five configurations left out"
)
FAMILIES = ("qwen3.5", "qwen3", "llama", "gpt-oss", "minimax", "deepseek")
LEAST_FAMILIES, LEAST_P = 4, 0.05


@dataclass(frozen=True)
class Data:
    """Rows with what was measured, in seconds."""

    points: list[Point]
    table: Table
    truth: np.ndarray  # TPOT and TTFT

    def column(self, name: str) -> np.ndarray:
        """A column of the rows."""
        return np.array([each.row[name] for each in self.points])

    @property
    def families(self) -> np.ndarray:
        """The family of each row's model."""
        return np.array([family(each.row["model"]) for each in self.points])

    def part(self, rows: np.ndarray) -> Data:
        """Some of the rows."""
        points = [each for each, is_in in zip(self.points, rows, strict=True) if is_in]
        return Data(points, self.table.part(rows), self.truth[rows])


def family(model: str) -> str:
    """Models of one maker that share an architecture."""
    return next((name for name in FAMILIES if model.casefold().startswith(name)), model)


def data_of(rows: Path, configs: Path, frozen: bool) -> Data:
    """The frozen or the other rows of a file."""
    texts, truth = rows_of(rows), measured(rows)
    pairs = [
        (each, times)
        for row, times in zip(texts, truth, strict=True)
        if is_frozen(row) == frozen and (each := point(row, configs)) is not None
    ]
    return Data(
        [each for each, _ in pairs],
        table_of([each for each, _ in pairs]),
        np.array([t for _, t in pairs]) / 1e3,
    )


def fitted(data: Data) -> np.ndarray:
    """Deviations of the numbers."""
    return fit(data.table, data.truth, np.where(data.column("harness") == "gap_sla", 0.1, 1.0))


def held_out(data: Data, groups: np.ndarray, target: Data, target_groups: np.ndarray) -> np.ndarray:
    """Predictions of `target`, each by rates that were fitted without its group."""
    result = np.zeros_like(target.truth)
    for group in sorted(set(target_groups)):
        rows = target_groups == group
        table = target.table.part(rows)
        result[rows] = predicted(table, values_of(fitted(data.part(groups != group)), table))
    return result


def weighted_interval(residuals: np.ndarray, families: np.ndarray) -> tuple[float, float]:
    """Factors of the estimate between which 90 % of a new family lie; families count alike.

    The quantiles are widened until those of all families but one cover 90 % of that one, on average.
    """
    names = sorted(set(families))
    low, high = _quantiles(residuals, families)
    for widening in np.arange(1.0, 4.0, 0.05):
        covered = []
        for name in names:
            others = families != name
            bounds = [widening * bound for bound in _quantiles(residuals[others], families[others])]
            held = residuals[~others]
            covered.append(((held >= bounds[0]) & (held <= bounds[1])).mean())
        if np.mean(covered) >= 0.9:
            break
    return float(np.exp(widening * low)), float(np.exp(widening * high))


def _quantiles(residuals: np.ndarray, families: np.ndarray) -> tuple[float, float]:
    """The 5 % and 95 % quantiles, at least on either side of zero."""
    weight = np.array([1 / (families == name).sum() for name in families])
    order = np.argsort(residuals)
    shares = np.cumsum(weight[order]) / weight.sum()
    low, high = (residuals[order][min(np.searchsorted(shares, q), len(order) - 1)] for q in (0.05, 0.95))
    return min(float(low), 0.0), max(float(high), 0.0)


def main() -> None:
    """Fit, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--configs", type=Path, default=CONFIGS)
    parser.add_argument("--write", action="store_true", help="write the shipped calibrations")
    parser.add_argument("--frozen", action="store_true", help="score the frozen rows")
    args = parser.parse_args()
    data = data_of(args.rows, args.configs, frozen=False)
    models = data.column("model")
    by_model = held_out(data, models, data, models)
    by_family = held_out(data, data.families, data, data.families)
    print_errors("models held out", data, by_model)
    print_errors("families held out", data, by_family)
    lines = page_lines("models held out", data, by_model)
    if args.write:
        CALIBRATIONS.write_text("".join(calibration_lines(data, by_model, by_family)), "utf-8")
    if args.frozen:
        frozen = data_of(args.rows, args.configs, frozen=True)
        unseen = held_out(data, models, frozen, frozen.column("model"))
        print_errors("frozen rows, models held out", frozen, unseen)
        others = held_out(data, data.families, frozen, frozen.families)
        print_errors("frozen rows, families held out", frozen, others)
        lines += page_lines("frozen, models held out", frozen, unseen)
        lines += coverage_lines(data, by_family, frozen, others)
        if args.write:
            text = PAGE.read_text("utf-8")
            PAGE.write_text(BLOCK.sub(lambda match: match[1] + "".join(lines) + match[2], text), "utf-8")


def page_lines(title: str, data: Data, times: np.ndarray) -> list[str]:
    """Errors as a table of the page."""
    lines = [
        f"| {title} | rows | TPOT mean | median | within 20 % | TTFT mean | median | within 20 % |\n",
        "|---|--:|--:|--:|--:|--:|--:|--:|\n",
    ]
    for label, rows in groups_of(data):
        figures = [errors(times[rows, column], data.truth[rows, column]) for column in (0, 1)]
        cells = [f"{mean:.1f} % | {median:.1f} % | {within:.0f} %" for mean, median, within in figures]
        lines.append(f"| {label} | {rows.sum():,} | {' | '.join(cells)} |\n")
    return [*lines, "\n"]


def print_errors(title: str, data: Data, times: np.ndarray) -> None:
    """Errors of TPOT and TTFT, in all and by harness and engine."""
    print(f"{title}: mean / median error, share within 20 %")
    for label, rows in groups_of(data):
        texts = [
            "{:5.1f} / {:5.1f} %, {:3.0f} %".format(*errors(times[rows, c], data.truth[rows, c]))
            for c in (0, 1)
        ]
        print(f"  {label:16}{rows.sum():6,}   TPOT {texts[0]}   TTFT {texts[1]}")


def groups_of(data: Data) -> Iterable[tuple[str, np.ndarray]]:
    """All rows, and those of each harness, engine and model."""
    yield "all", np.ones(len(data.points), bool)
    for name in ("harness", "backend", "model"):
        column = data.column(name)
        for value in sorted(set(column)):
            yield value, column == value


def coverage(
    data: Data, by_family: np.ndarray, target: Data, times: np.ndarray, engine: str, index: int
) -> tuple[np.ndarray, float]:
    """Which measurements the interval of an engine, from other families only, holds; and its median width."""
    engines, families, here = data.column("backend"), data.families, target.column("backend") == engine
    hits, widths = [], []
    for group in sorted(set(target.families[here])):
        rows, others = here & (target.families == group), (engines == engine) & (families != group)
        residual = np.log(data.truth[others, index] / by_family[others, index])
        low, high = weighted_interval(residual, families[others])
        ratio = target.truth[rows, index] / times[rows, index]
        hits += list((ratio >= low) & (ratio <= high))
        widths += [high / low] * int(rows.sum())
    return np.array(hits), float(np.median(widths))


def binomial_p(hits: int, count: int, share: float = 0.9) -> float:
    """The probability of numbers of hits that are no more likely than this one."""
    numbers = range(count + 1)
    logarithms = np.array(
        [
            lgamma(count + 1) - lgamma(each + 1) - lgamma(count - each + 1)
            + each * np.log(share) + (count - each) * np.log(1 - share)
            for each in numbers
        ]
    )  # fmt: skip
    return float(np.exp(logarithms[logarithms <= logarithms[hits] + 1e-9]).sum())


def is_wide_enough(hits: int, count: int) -> bool:
    """Whether a 90 % interval that held `hits` of `count` measurements is not too narrow, by a test."""
    return hits >= 0.9 * count or binomial_p(hits, count) > LEAST_P


def engines_with_interval(data: Data, by_family: np.ndarray) -> set[str]:
    """Engines of enough families whose intervals are not too narrow."""
    result = set()
    for engine in ENGINES:
        rows = data.column("backend") == engine
        if len(set(data.families[rows])) < LEAST_FAMILIES:
            continue
        is_shipped = engine not in WITHOUT_INTERVAL
        for index, name in enumerate(("TPOT", "TTFT")):
            hits, width = coverage(data, by_family, data, by_family, engine, index)
            share, p = f"{100 * hits.mean():.1f} % of {len(hits):,}", binomial_p(int(hits.sum()), len(hits))
            print(f"  {engine:8} 90 % interval of {name} holds {share}, p {p:.2g}, x {width:.2f}")
            is_shipped &= is_wide_enough(int(hits.sum()), len(hits))
        if is_shipped:
            result.add(engine)
    return result


def resampled(hits: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of a share, by resampling groups of measurements that depend on each other."""
    parts, random = [hits[groups == name] for name in sorted(set(groups))], np.random.default_rng(0)
    draws = random.integers(len(parts), size=(2000, len(parts)))
    shares = [np.concatenate([parts[index] for index in draw]).mean() for draw in draws]
    return float(np.quantile(shares, 0.025)), float(np.quantile(shares, 0.975))


def coverage_lines(data: Data, by_family: np.ndarray, target: Data, times: np.ndarray) -> list[str]:
    """How often the interval of an engine, from other families only, holds what was measured."""
    lines = [
        "| 90 % interval, families held out | rows | configurations | TPOT | width | TTFT | width |\n",
        "|---|--:|--:|--:|--:|--:|--:|\n",
    ]
    names = np.array(["|".join(each.row[name] for name in CONFIGURATION) for each in target.points])
    for engine in ENGINES:
        here = target.column("backend") == engine
        order = np.argsort(target.families[here], kind="stable")  # as `coverage` has them
        cells = [f"{here.sum():,}", f"{len(set(names[here])):,}"]
        for index in (0, 1):
            hits, width = coverage(data, by_family, target, times, engine, index)
            low, high = resampled(hits, names[here][order])
            cells += [f"{100 * hits.mean():.0f} % ({100 * low:.0f} to {100 * high:.0f} %)", f"x {width:.3g}"]
        lines.append(f"| {engine} | {' | '.join(cells)} |\n")
        print(lines[-1], end="")
    return lines


def calibration_lines(data: Data, by_model: np.ndarray, by_family: np.ndarray) -> Iterable[str]:
    """The shipped calibrations as TOML."""
    yield "# Written by benchmarks/serving_fit.py. Efficiencies are shares of data-sheet rates, times are in"
    yield " seconds.\n"
    values, intervals = values_of(fitted(data), data.table), engines_with_interval(data, by_family)
    engines, devices = data.column("backend"), np.array([each.device for each in data.points])
    dates = sorted(text for text in data.column("measured") if text)
    for engine in ENGINES:
        rows = engines == engine
        texts = {text for text in data.column("backend_version")[rows] if text[:1].isdigit()}
        versions = sorted(texts, key=lambda text: [int(part) for part in re.findall(r"\d+", text)])
        names = sorted(set(data.families[rows]))
        yield f"\n[engine.{engine}]\n"
        yield f'versions = "{versions[0]} to {versions[-1]}"\nsource = "{SOURCE}"\n'
        yield f'date = "{dates[-1]}"\nmeasurements = {rows.sum()}\nfamilies = "{", ".join(names)}"\n'
        for index, name in enumerate(("tpot", "ttft")):
            mean, median, within = errors(by_model[rows, index], data.truth[rows, index])
            residual = np.log(data.truth[rows, index] / by_family[rows, index])
            factors = weighted_interval(residual, data.families[rows]) if engine in intervals else None
            text = "" if factors is None else f", low = {factors[0]:.3f}, high = {factors[1]:.3f}"
            yield f"{name} = {{ mape = {mean / 100:.3f}, median = {median / 100:.3f},"
            yield f" within_20 = {within / 100:.3f}{text} }}\n"
        for device in SYSTEMS:
            here = rows & (devices == device)
            if not here.any():
                continue
            yield f"\n[engine.{engine}.device.{device}]\nmeasurements = {here.sum()}\n"
            for index, name in enumerate(("tpot", "ttft")):
                yield f"{name}_mape = {errors(by_model[here, index], data.truth[here, index])[0] / 100:.3f}\n"
            first = int(np.flatnonzero(here)[0])
            yield from (
                f"{field.name} = {values[field.name][first]:.4g}\n"
                for field in fields(Rates)
                if field.name in values
            )


if __name__ == "__main__":
    main()
