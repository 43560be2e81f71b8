"""Vidur: single kernels of language models in half precision, by tokens and degree of parallelism."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from fitting.measured import Measured, target_of
from latency.truth.gemm_sets import products
from latency.truth.tables import Table, read
from sizeup.latency import Work, from_columns, stack

_WIDTH = 2  # bytes of a float16
_PRODUCTS = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")
_OTHERS = {
    "input_layernorm": "layer_norm.fp16",
    "post_attention_layernorm": "layer_norm.fp16",
    "mlp_act": "activation.fp16",
    "add": "elementwise.fp16",
    "emb": "index.fp16",
}
_ONE_IN = 6  # neighboring token counts have similar times


def measured(folder: Path) -> Iterator[Measured]:
    """The kernels of each card, each as a separate network."""
    table = read(folder / "vidur_ops.parquet")
    table = table.where((table.numbers("latency_ms") > 0) & (np.arange(len(table)) % _ONE_IN == 0))
    for gpu in np.unique(table.words("device")).tolist():
        target = target_of(gpu, "vllm")
        assert target is not None
        rows = table.where(table.words("device") == gpu)
        parts = [rows.where(np.isin(rows.words("op"), ops)) for ops in (_PRODUCTS, [*_OTHERS])]
        linear = replace(products(parts[0]), names=("linear.fp16",))
        seconds = np.concatenate([part.numbers("latency_ms") for part in parts]) / 1e3
        sizes = np.concatenate([_sizes(part) for part in parts])
        yield Measured("vidur_ops", target, stack([linear, _moving(parts[1])]), seconds, sizes)


def _sizes(table: Table) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    """The layer sizes of each row's model; models of the same sizes are one group."""
    columns = [table.words(name).tolist() for name in ("n_embd", "n_ff", "n_kv_head")]
    return np.array(["x".join(name) for name in zip(*columns, strict=True)])


def _moving(table: Table) -> Work:
    """Memory-bound operators: bytes read and written, without MACs."""
    operator, tokens = table.words("op"), table.numbers("num_tokens")
    wide = _WIDTH * tokens * table.numbers("n_embd")
    hidden = _WIDTH * tokens * table.numbers("n_ff") // table.numbers("tp")
    activated = operator == "mlp_act"
    count = len(table)
    return from_columns(
        [_OTHERS[name] for name in operator.tolist()],
        count,
        np.arange(count),
        read=np.where(
            activated, (1 + table.numbers("gated")) * hidden, np.where(operator == "add", 2, 1) * wide
        ),
        written=np.where(activated, hidden, wide),
    )
