"""Measured disaggregated servers against predicted times: TPOT and TTFT.

    python benchmarks/serving_disaggregated.py --write

Predicts the rows of silicon_disaggregated.csv that state concurrency, workers and layouts, on devices that
the engine is calibrated for. Rates are those of aggregated serving: nothing is fitted to these rows. With
--write, the table goes into docs/llm-times.md.
"""

from __future__ import annotations

import argparse
import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from serving_flags import REQUESTS_PER_CLIENT
from serving_rows import CONFIGS, ROOT, SHARED, architecture_of, errors, measured, rows_of

from fitting.page import with_block
from sizeup.errors import SizeupError
from sizeup.serving.memory.engines import engine_of
from sizeup.serving.memory.gpus import gpus_of
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.steps.rates import calibrations
from sizeup.serving.steps.step import server_of
from sizeup.serving.times.disaggregation import Side, disaggregated_points, transfer
from sizeup.targets.clusters import cluster

ROWS = SHARED / "llm" / "silicon_disaggregated.csv"
PAGE = ROOT / "docs" / "llm-times.md"
_PER_NODE = 8
_MOST_CLIENTS = 4  # ratio of the concurrency of two divisions that are compared


def main() -> None:
    """Predict, print the table, and write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, default=ROWS, help="a file with the columns of that file")
    parser.add_argument("--configs", type=Path, default=CONFIGS, help="the folder of config.json files")
    parser.add_argument("--write", action="store_true", help="write the table to docs/llm-times.md")
    args = parser.parse_args()
    rows, truth = rows_of(args.rows), np.array(measured(args.rows))
    stated = [index for index, row in enumerate(rows) if row["prefill_num_workers"]]
    pairs = [(index, predict(rows[index], args.configs)) for index in stated]
    known = [(index, pair) for index, pair in pairs if pair is not None]
    predicted, actual = np.array([pair for _, pair in known]), truth[[index for index, _ in known]]
    kept = [rows[index] for index, _ in known]
    text = f"{table(kept, predicted, actual)}\n\n{ratio_errors(kept, predicted, actual)}"
    print(f"{len(known):,} of {len(stated):,} rows that state workers are predicted\n{text}")
    if args.write:
        page = PAGE.read_text("utf-8")
        PAGE.write_text(with_block(page, "disaggregated errors", f"{text}\n"), "utf-8")


def predict(row: dict[str, str], configs: Path) -> tuple[float, float, float] | None:
    """TPOT, TTFT and TTFT with the first burst, in ms; None without a calibration, or if a row is refused."""
    device = row["system"].removesuffix("_sxm")
    calibration = calibrations().get(row["backend"])
    try:
        architecture = architecture_of(row["model_path"], row["precision"], str(configs))
        clients = int(float(row["concurrency"]))
        sides = [_side(row, name, architecture, device) for name in ("prefill", "decode")]
    except (SizeupError, ValueError, KeyError):
        return None
    machines = sides[0].cluster
    if calibration is None or machines.device.name not in calibration.rates:
        return None
    kv, share = "fp8", 0.9 if row["harness"] == "inferencemax" else 1.0
    input, output = share * float(row["isl"]), share * float(row["osl"])
    rates = calibration.rates[machines.device.name]
    servers = [server_of(architecture, side.layout, side.cluster, kv, rates) for side in sides]
    memory = machines.memory_bytes
    if servers[0] is None or servers[1] is None or memory is None:
        return None
    layout = sides[1].layout
    gpu = gpus_of(architecture, layout, engine_of(row["backend"]), memory, kv)[0]
    most = layout.data * layout.replicas * max(gpu.capacity.max_sequences(int(input + output)), 1)
    whole = replace(machines, nodes=2)  # prefill and decode workers are in different nodes
    *_, sent = transfer(architecture, kv, int(input), *sides, whole)
    rate, points = disaggregated_points(
        servers[0], servers[1], [clients], input, output,
        most=most, transfer_seconds=sent or 0.0, gpus=1,
    )  # fmt: skip
    # InferenceMAX sends ten requests per client, and the first of all clients at once.
    burst = clients / (2 * rate) / REQUESTS_PER_CLIENT if row["harness"] == "inferencemax" else 0.0
    return 1e3 * points[0].tpot, 1e3 * points[0].ttft, 1e3 * (points[0].ttft + burst)


def _side(row: dict[str, str], name: str, architecture: Architecture, device: str) -> Side:
    """The workers of one side; each is in a separate node, or in whole nodes."""
    names = ("tp_size", "pp_size", "attention_dp_size", "moe_ep_size", "num_workers")
    tensor, pipeline, data, expert, workers = (int(float(row[f"{name}_{key}"])) for key in names)
    size = tensor * pipeline * data
    nodes, per_node = (workers, size) if size <= _PER_NODE else (workers * size // _PER_NODE, _PER_NODE)
    machines, _ = cluster(f"{nodes}x{per_node}x{device}")
    if not architecture.expert_count:
        return Side(Layout(tensor, pipeline, data * workers), machines)
    return Side(Layout(tensor, pipeline, data, expert, workers), machines)


def ratio_errors(rows: list[dict[str, str]], predicted: np.ndarray, truth: np.ndarray) -> str:
    """How far predicted ratios of throughput per GPU between two divisions are from measured ones."""
    gpus = np.array([[_gpus(row, name) for name in ("prefill", "decode")] for row in rows])
    clients, lengths = (np.array([float(row[name]) for row in rows]) for name in ("concurrency", "osl"))
    ratios = np.log(_rate(predicted, lengths) / _rate(truth, lengths))  # clients and GPUs are the same
    names = ("model", "backend", "system", "isl", "osl", "precision")
    alike = [tuple(row[name] for name in names) for row in rows]
    errors = [
        abs(ratios[first] - ratios[second])
        for first, second in itertools.combinations(range(len(rows)), 2)
        if alike[first] == alike[second] and tuple(gpus[first]) != tuple(gpus[second])
        and 1 / _MOST_CLIENTS <= clients[first] / clients[second] <= _MOST_CLIENTS
    ]  # fmt: skip
    middle, most = np.exp(np.quantile(errors, [0.5, 0.9]))
    return (
        "Ratios of throughput per GPU between two divisions of the same server at up to"
        f" {_MOST_CLIENTS} times the concurrency\n({len(errors):,} pairs) are off by a factor of"
        f" {middle:.2f} in the median, and 90 % of them by less than {most:.2f}."
    )


def _gpus(row: dict[str, str], name: str) -> int:
    keys = ("tp_size", "pp_size", "attention_dp_size", "num_workers")
    return math.prod(int(float(row[f"{name}_{key}"])) for key in keys)


def _rate(times: np.ndarray, output: np.ndarray) -> np.ndarray:
    """Requests per ms of one client, from TPOT and TTFT."""
    return 1 / (times[:, 1] + (output - 1) * times[:, 0])


def table(rows: list[dict[str, str]], predicted: np.ndarray, truth: np.ndarray) -> str:
    """Mean and median error and the share within 20 %, in all and by column."""
    columns = ("TPOT mean", "TTFT mean", "TTFT with first burst, mean")
    titles = " | ".join(f"{column} | median | within 20 %" for column in columns)
    lines = [f"| disaggregated | rows | {titles} |", f"|---|{'--:|' * 10}"]
    for name in ("", "backend", "system"):
        for value in sorted({row[name] for row in rows}) if name else ["all"]:
            here = np.array([not name or row[name] == value for row in rows])
            cells = [
                f"{mean:.1f} % | {median:.1f} % | {within:.0f} %"
                for mean, median, within in (
                    errors(predicted[here, index], truth[here, min(index, 1)]) for index in (0, 1, 2)
                )
            ]
            lines.append(f"| {value} | {here.sum():,} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
