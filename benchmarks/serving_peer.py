"""aiconfigurator on the rows of measured servers, and its errors next to those of sizeup.

python -m venv peer && peer/bin/pip install 'aiconfigurator==0.12.*'
peer/bin/python benchmarks/serving_peer.py predict -o peer.csv   # needs aiconfigurator, not sizeup
python benchmarks/serving_peer.py compare peer.csv --write       # needs sizeup; writes docs/llm-times.md

Rows are those that are not frozen (serving_split.py), or with --part frozen or all of a file with the columns
of silicon.csv. Measured columns are not read to predict. Both tools get the same operating points: lengths of
InferenceMAX are 0.9 of the stated ones, and quantized checkpoints have an fp8 cache where serving_rows.py
assumes one. Precisions are those of the row; if aiconfigurator has no tables for them, those of its
configuration of the model. It takes the tables of its default version of an engine; it has none of the
measured versions. Its SDK is called directly: the command line builds the model for each estimate.
"""

from __future__ import annotations

import argparse
import csv
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from serving_split import is_frozen

ROOT = Path(__file__).resolve().parents[1]
ROWS = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared")) / "llm" / "silicon.csv"
PAGE = ROOT / "docs" / "llm-times.md"
BLOCK = re.compile(r"(<!-- peer -->\n).*?(<!-- end -->)", re.DOTALL)
MEASURED = ("silicon_ttft_ms", "silicon_tpot_ms")
PARTS: dict[str, Callable[[dict[str, str]], bool]] = {
    "fitted": lambda row: not is_frozen(row), "frozen": is_frozen, "all": lambda _: True,
}  # fmt: skip
# Names of bundled configurations with the architecture of the model.
BUNDLED = {
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
}


def main() -> None:
    """Predict with aiconfigurator, or compare its predictions with those of sizeup."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    predict = commands.add_parser("predict")
    predict.add_argument("--rows", type=Path, default=ROWS, help="a file with the columns of silicon.csv")
    predict.add_argument("--part", choices=PARTS, default="fitted", help="the part of the frozen split")
    predict.add_argument("-o", "--output", type=Path, required=True, help="the file of predictions")
    compare = commands.add_parser("compare")
    compare.add_argument("predictions", type=Path, help="what predict wrote")
    compare.add_argument("--rows", type=Path, default=ROWS)
    compare.add_argument("--part", choices=PARTS, default="fitted")
    compare.add_argument("--write", action="store_true", help="write the table of docs/llm-times.md")
    args = parser.parse_args()
    if args.command == "predict":
        write_predictions(args.rows, args.part, args.output)
    else:
        print_comparison(args.rows, args.part, args.predictions, args.write)


def write_predictions(path: Path, part: str, output: Path) -> None:
    """Write id, tpot_ms, ttft_ms and status per row; times are empty unless status is `answered`."""
    logging.disable(logging.CRITICAL)  # a warning per interpolation otherwise
    with path.open(newline="", encoding="utf-8") as file:
        rows = [
            {name: text for name, text in row.items() if name not in MEASURED} for row in csv.DictReader(file)
        ]
    rows = [row for row in rows if PARTS[part](row)]
    rows.sort(key=lambda row: (row["system"], row["backend"]))  # one table of operators at a time
    counts: Counter[str] = Counter()
    with output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "tpot_ms", "ttft_ms", "status"))
        for row in rows:
            times, status = predicted(row)
            counts[status.split(":")[0]] += 1
            writer.writerow(
                (row["id"], *(("", "") if times is None else (f"{each:.6g}" for each in times)), status)
            )
            file.flush()
    print(", ".join(f"{count:,} {status}" for status, count in counts.most_common()))


def predicted(row: dict[str, str]) -> tuple[tuple[float, float] | None, str]:
    """TPOT and TTFT in ms, and `answered`, `answered otherwise`, `out of memory` or `refused: REASON`.

    A row is answered otherwise if there are tables for the other choice of precisions alone.
    """
    # gpt-oss is listed as nvfp4, but has mxfp4 experts: its configuration is tried first.
    is_quantized, is_gpt_oss = row["precision_fixed"] != "bf16", row["precision_fixed"] == "mxfp4"
    refusal, summary = "", None
    for has_stated_modes in (not is_gpt_oss, is_gpt_oss) if is_quantized else (False,):
        try:
            summary = _summary(row, has_stated_modes)
            break
        except Exception as error:  # what the peer raises is not documented
            refusal = refusal or f"refused: {type(error).__name__} {str(error)[:100]!r}"
    if summary is None:
        return None, refusal
    result = summary.get_result_dict()
    if summary.check_oom():
        return None, "out of memory"
    if result is None:
        return None, "refused: no result"
    return (float(result["tpot"]), float(result["ttft"])), "answered otherwise" if refusal else "answered"


def _summary(row: dict[str, str], has_stated_modes: bool) -> Any:
    from aiconfigurator.sdk.config import RuntimeConfig

    tensor, data, gpus = (int(float(row[name])) for name in ("tp_fixed", "attn_dp_fixed", "gpus"))
    expert_sizes = tuple(int(float(row[name] or 1)) for name in ("moe_tp_fixed", "moe_ep_fixed"))
    is_drawn = row["harness"] == "inferencemax"
    is_quantized = row["precision_fixed"] != "bf16"
    has_fp8_cache = is_quantized and (
        is_drawn or row["backend"] == "trtllm" or row["model_path"].startswith("nvidia/")
    )
    gemm, moe = (row[name] if has_stated_modes else "" for name in ("gemm_quant_mode", "moe_quant_mode"))
    session = _session(
        BUNDLED.get(row["model_path"], row["model_path"]), row["system"], row["backend"], tensor, data,
        expert_sizes, gemm, moe, "fp8" if has_fp8_cache else "",
    )  # fmt: skip
    share = 0.9 if is_drawn else 1.0
    input, output = (round(share * float(row[name])) for name in ("isl", "osl"))
    # A batch is that of one data-parallel group.
    groups = data * max(gpus // (tensor * data), 1)
    batch = -(-int(float(row["concurrency"])) // groups)
    runtime = RuntimeConfig(isl=input, osl=output, batch_size=batch)
    return session.run_agg(runtime, ctx_tokens=input)


@cache
def _session(
    model_path: str, system: str, backend_name: str, tensor: int, data: int, expert_sizes: tuple[int, int],
    gemm: str, moe: str, kv: str,
) -> Any:  # fmt: skip
    """A model on a system, as the command `aiconfigurator cli estimate` builds it."""
    from aiconfigurator.sdk.backends.factory import get_backend
    from aiconfigurator.sdk.config_builders import build_model_config
    from aiconfigurator.sdk.inference_session import InferenceSession
    from aiconfigurator.sdk.models import (
        check_is_moe,
        get_model,
        resolve_context_fmha_by_data,
        resolve_dsv4_moe_arch,
        resolve_nvfp4_for_system,
    )

    database = _database(system, backend_name)
    sizes = expert_sizes if check_is_moe(model_path) else (None, None)
    config = build_model_config(tensor, 1, data, *sizes, gemm or None, kv or None, None, moe or None, None)
    resolve_context_fmha_by_data(config, model_path, database, backend_name, is_context_role=True)
    resolve_dsv4_moe_arch(config, model_path, system_name=system, backend_name=backend_name)
    resolve_nvfp4_for_system(config, system, model_path, backend_name=backend_name)
    return InferenceSession(get_model(model_path, config, backend_name), database, get_backend(backend_name))


@cache
def _database(system: str, backend_name: str) -> Any:
    from aiconfigurator.sdk.perf_database import get_database_view, get_latest_database_version

    version = get_latest_database_version(system=system, backend=backend_name)
    if version is None:
        raise ValueError(f"no tables of {backend_name} on {system}")
    print(f"{system} {backend_name} {version}", file=sys.stderr)
    return get_database_view(system, backend_name, version, allow_missing_data=False, database_mode="SILICON")


def print_comparison(path: Path, part: str, predictions: Path, is_written: bool) -> None:
    """Print errors of both on the rows that both answer; sizeup is fitted without the model of a row."""
    import numpy as np
    from serving_fit import Data, data_of, groups_of, held_out
    from serving_regression import table_of
    from serving_rows import CONFIGS, measured, point, rows_of
    from serving_rows import ROWS as FITTED

    with predictions.open(newline="", encoding="utf-8") as file:
        peer = {row["id"]: row for row in csv.DictReader(file)}
    rows = [pair for pair in zip(rows_of(path), measured(path), strict=True) if PARTS[part](pair[0])]
    pairs = [(point(row, CONFIGS), truth) for row, truth in rows]
    both = [
        (each, truth)
        for each, truth in pairs
        if each is not None and peer.get(each.row["id"], {}).get("status", "").startswith("answered")
    ]
    points, truth = [each for each, _ in both], np.array([times for _, times in both]) / 1e3
    target = Data(points, table_of(points), truth)
    data = data_of(FITTED, CONFIGS, frozen=False)
    ours = held_out(data, data.column("model"), target, target.column("model"))
    theirs = (
        np.array([[float(peer[each.row["id"]][name]) for name in ("tpot_ms", "ttft_ms")] for each in points])
        / 1e3
    )
    is_direct = np.array([peer[each.row["id"]]["status"] == "answered" for each in points])
    groups = [*groups_of(target), ("first choice of precisions", is_direct)]
    lines = list(_lines(groups, target.truth, ours, theirs))
    counts = Counter(row["status"].split(":")[0] for row in peer.values())
    refused = sum(each is None for each, _ in pairs)
    lines.append(
        f"\nOf {len(rows):,} rows, aiconfigurator answers {len(both):,}, calls"
        f" {counts['out of memory']:,} out of memory that did run, and refuses {counts['refused']:,};"
        f" sizeup refuses {refused:,}.\n"
    )
    print("".join(lines))
    if is_written:
        text = PAGE.read_text("utf-8")
        PAGE.write_text(BLOCK.sub(lambda match: match[1] + "".join(lines) + match[2], text), "utf-8")


def _lines(groups: list[tuple[str, Any]], truth: Any, ours: Any, theirs: Any) -> Iterator[str]:
    """Errors of both as rows of a table."""
    from serving_rows import errors

    yield "| rows that both answer | rows | tool | TPOT mean | median | within 20 %"
    yield " | TTFT mean | median | within 20 % |\n"
    yield "|---|--:|---|--:|--:|--:|--:|--:|--:|\n"
    for label, rows in groups:
        for tool, times in (("sizeup, model held out", ours), ("aiconfigurator", theirs)):
            figures = [errors(times[rows, column], truth[rows, column]) for column in (0, 1)]
            cells = [f"{mean:.1f} % | {median:.1f} % | {within:.0f} %" for mean, median, within in figures]
            count = f"{label} | {rows.sum():,}" if times is ours else " | "
            yield f"| {count} | {tool} | {' | '.join(cells)} |\n"


if __name__ == "__main__":
    main()
