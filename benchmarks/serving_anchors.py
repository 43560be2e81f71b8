"""How much one measurement of a server improves the estimates of others, with families of models held out.

python benchmarks/serving_anchors.py            # print errors
python benchmarks/serving_anchors.py --write    # and write the table of docs/calibrating.md

Every pair of rows that are not frozen is tried: one row is the measurement, the other is estimated. Rows
count alike, however many pairs they are in.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
from serving_fit import Data, data_of, held_out
from serving_rows import CONFIGS, ROWS

from sizeup.serving.steps.factors import HALVING
from sizeup.serving.steps.rates import calibrations

PAGE = Path(__file__).resolve().parents[1] / "docs" / "calibrating.md"
BLOCK = re.compile(r"(<!-- anchors -->\n).*?(<!-- end -->)", re.DOTALL)
SERVER = ("system", "backend")
LAYOUT = (*SERVER, "model", "precision_fixed", "tp_fixed", "attn_dp_fixed", "moe_tp_fixed", "moe_ep_fixed")
LOAD = ("concurrency", "isl", "osl")


def main() -> None:
    """Print, and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the table of the page")
    args = parser.parse_args()
    data = data_of(ROWS, CONFIGS, frozen=False)
    logs = np.log(data.truth / held_out(data, data.families, data, data.families))
    lines = list(page_lines(data, logs))
    print("".join(lines))
    if args.write:
        text = PAGE.read_text("utf-8")
        PAGE.write_text(BLOCK.sub(lambda match: match[1] + "".join(lines) + match[2], text), "utf-8")


def page_lines(data: Data, logs: np.ndarray) -> list[str]:
    """One row per kind of pair: errors without and with the measurement, and coverage of the interval."""
    same_layout = pairs(texts(data, LAYOUT), None)
    lengths = texts(data, (*LAYOUT, "isl", "osl"))
    is_same_length = lengths[same_layout[0]] == lengths[same_layout[1]]
    cases = {
        "same layout and lengths, other concurrency": same_layout[:, is_same_length],
        "same layout, other lengths": same_layout[:, ~is_same_length],
        "same model, other layout": pairs(texts(data, LAYOUT[:4]), texts(data, LAYOUT)),
        "other model on the same server": pairs(texts(data, SERVER), data.column("model")),
    }
    load = np.log2(np.array([[float(each.row[name]) for name in LOAD] for each in data.points]))
    lines = [
        "| measured | pairs | TPOT without | with | interval | TTFT without | with | interval |\n",
        "|---|--:|--:|--:|--:|--:|--:|--:|\n",
    ]
    for title, (rows, others) in cases.items():
        weight = 0.5 ** (np.abs(load[rows] - load[others]).sum(axis=1) / HALVING)
        cells = []
        for index in (0, 1):
            before, after = logs[rows, index], logs[rows, index] - weight * logs[others, index]
            cells += [errors(before, rows), errors(after, rows), coverage(data, after, rows, index)]
        lines.append(f"| {title} | {len(rows):,} | {' | '.join(cells)} |\n")
    return lines


def texts(data: Data, names: tuple[str, ...]) -> np.ndarray:
    """Columns of each row as one text."""
    return np.array(["|".join(parts) for parts in zip(*map(data.column, names), strict=True)])


def pairs(groups: np.ndarray, apart: np.ndarray | None) -> np.ndarray:
    """Rows of one group as pairs of indices; of different parts, if `apart` names them."""
    found = []
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        first, second = (each.ravel() for each in np.meshgrid(rows, rows))
        keep = first != second if apart is None else apart[first] != apart[second]
        found.append(np.stack([first[keep], second[keep]]))
    return np.concatenate(found, axis=1)


def errors(residuals: np.ndarray, rows: np.ndarray) -> str:
    """Mean and median absolute error over rows, each the mean or a pair of those it is in."""
    error, weight = np.abs(np.exp(-residuals) - 1), 1 / np.bincount(rows)[rows]
    order = np.argsort(error)
    shares = np.cumsum(weight[order]) / weight.sum()
    median = error[order][np.searchsorted(shares, 0.5)]
    return f"{100 * np.average(error, weights=weight):.1f} / {100 * median:.1f} %"


def coverage(data: Data, residuals: np.ndarray, rows: np.ndarray, index: int) -> str:
    """How often the shipped interval around the corrected estimate holds the measurement."""
    engines, hits = data.column("backend")[rows], np.full(len(rows), np.nan)
    for name, calibration in calibrations().items():
        interval = (calibration.tpot, calibration.ttft)[index]
        if interval.low is not None and interval.high is not None:
            here = engines == name
            ratios = np.exp(residuals[here])
            hits[here] = (ratios >= interval.low) & (ratios <= interval.high)
    is_known = ~np.isnan(hits)
    weight = 1 / np.bincount(rows)[rows]
    return f"{100 * np.average(hits[is_known], weights=weight[is_known]):.0f} %"


if __name__ == "__main__":
    main()
