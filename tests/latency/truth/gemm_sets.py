"""Vidur's products of language models, by number of tokens and degree of tensor parallelism."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from latency.truth.judge import Outcome, folded
from latency.truth.splits import every
from latency.truth.tables import Table, read
from sizeup.latency import FitOptions, Work, from_columns
from sizeup.latency.work import Floats

GPUS = ("a100", "a40", "h100")
FORM = FitOptions(power=4, saturating=True)
_WIDTH = 2  # bytes of a float16


def _sides(table: Table) -> tuple[Floats, Floats, Floats]:
    """Length, columns and rows of every product."""
    operator = table.words("op")
    parallel, model, heads = table.numbers("tp"), table.numbers("n_embd"), table.numbers("n_head")
    hidden, kv_heads = table.numbers("n_ff"), table.numbers("n_kv_head")
    joint = (heads // parallel + 2 * np.maximum(kv_heads // parallel, 1)) * (model // heads)
    up = (1 + table.numbers("gated")) * hidden // parallel
    choices = [operator == each for each in ("attn_pre_proj", "attn_post_proj", "mlp_up_proj")]
    length = np.select(choices, [model, model // parallel, model], hidden // parallel)
    columns = np.select(choices, [joint, model, up], model)
    return length, columns, table.numbers("num_tokens")


def products(table: Table) -> Work:
    """Every row as a network of one kernel."""
    length, columns, rows = _sides(table)
    return from_columns(
        ["linear"] * len(table),
        len(table),
        np.arange(len(table)),
        macs=length * columns * rows,
        read=_WIDTH * length * rows,
        written=_WIDTH * columns * rows,
        weights=_WIDTH * length * columns,
        length=length,
        columns=columns,
        rows=rows,
    )


def outcome(folder: Path, gpu: str) -> Outcome:
    """Every language model held out in turn, together with those of the same sizes."""
    table = read(folder / "vidur_ops.parquet")
    kept = np.isin(table.words("op"), ["attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj"])
    table = table.where(kept & (table.words("device") == gpu) & (table.numbers("latency_ms") > 0))
    table = table.where(np.arange(len(table)) % 3 == 0)  # neighboring numbers of tokens say the same
    sizes = [table.words(each).tolist() for each in ("n_embd", "n_ff", "n_kv_head")]
    models = ["x".join(each) for each in zip(*sizes, strict=True)]
    times = table.numbers("latency_ms") / 1e3
    return folded(f"Vidur GEMM {gpu.upper()}", products(table), times, every(models), FORM)
