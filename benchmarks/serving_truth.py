"""Measured servers of language models against predicted times: TPOT and TTFT, by source of the measurement.

python benchmarks/serving_truth.py --rows silicon.csv -o predictions.csv

Predicts every row of a file with the columns of silicon.csv, without its measured columns, by the shipped
calibrations, and writes id, tpot_ms, ttft_ms and their 90 % intervals; cells are empty if a row is refused.
Errors are printed if the file has measured columns.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
from serving_rows import CONFIGS, MEASURED, ROWS, Point, errors, measured, points_of, rows_of

from sizeup.serving.steps.rates import calibrations
from sizeup.serving.times.closed_form import times

COLUMNS = ("id", "tpot_ms", "tpot_low_ms", "tpot_high_ms", "ttft_ms", "ttft_low_ms", "ttft_high_ms")


def main() -> None:
    """Predict, write and print errors."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, default=ROWS, help="a file with the columns of silicon.csv")
    parser.add_argument("--configs", type=Path, default=CONFIGS, help="the folder of config.json files")
    parser.add_argument("-o", "--output", type=Path, help="the file of predictions")
    args = parser.parse_args()
    rows = rows_of(args.rows)
    predictions = [None if each is None else predict(each) for each in points_of(rows, args.configs)]
    if args.output:
        write(args.output, rows, predictions)
    print(f"{sum(each is not None for each in predictions):,} of {len(rows):,} rows predicted")
    truth = np.array(measured(args.rows)).reshape(-1, len(MEASURED))
    print_errors(rows, predictions, truth)


def predict(point: Point) -> list[tuple[float, float | None, float | None]] | None:
    """TPOT and TTFT in ms, each with its interval; None without a calibration of the engine on the device."""
    calibration = calibrations().get(point.row["backend"])
    if calibration is None or point.device not in calibration.rates:
        return None
    server = replace(point.server, rates=calibration.rates[point.device])
    result = times(server, point.concurrency, point.input, point.output, point.capacity, point.benchmark)
    tpot, ttft = float(result.tpot), float(result.ttft)
    return [
        (1e3 * value, *(None if factor is None else 1e3 * value * factor for factor in (each.low, each.high)))
        for value, each in ((tpot, calibration.tpot), (ttft, calibration.ttft))
    ]


def write(path: Path, rows: list[dict[str, str]], predictions: list) -> None:
    """One line per row."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row, each in zip(rows, predictions, strict=True):
            cells = [""] * 6 if each is None else [_cell(value) for triple in each for value in triple]
            writer.writerow([row["id"], *cells])


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def print_errors(rows: list[dict[str, str]], predictions: list, truth: np.ndarray) -> None:
    """Mean and median error, share within 20 % and coverage, in all and by harness, engine and model."""
    is_known = np.array([each is not None for each in predictions]) & np.isfinite(truth).all(axis=1)
    if not is_known.any():
        return
    table = np.array([each if each is not None else [(np.nan,) * 3] * 2 for each in predictions], float)
    print("mean / median error, share within 20 %, share in the 90 % interval")
    for name in ("", "harness", "backend", "system", "model"):
        values = sorted({row[name] for row in rows}) if name else ["all"]
        for value in values:
            here = is_known & np.array([not name or row[name] == value for row in rows])
            if here.any():
                texts = [_errors(table[here, index], truth[here, index]) for index in (0, 1)]
                print(f"{value:18}{here.sum():6,}   TPOT {texts[0]}   TTFT {texts[1]}")


def _errors(predicted: np.ndarray, truth: np.ndarray) -> str:
    mean, median, within = errors(predicted[:, 0], truth)
    covered = 100 * ((truth >= predicted[:, 1]) & (truth <= predicted[:, 2])).mean()
    return f"{mean:5.1f} / {median:5.1f} %, {within:3.0f} %, {covered:3.0f} %"


if __name__ == "__main__":
    main()
