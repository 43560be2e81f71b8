"""Matrix products of one layer, measured by Vidur, against the part of a step that weights take.

The rates are those of vLLM that `sizeup llm` has for the GPU, fitted to whole servers and batches: the check
is whether time is attributed to the right part. The kernel floor is counted once per product.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from serving_rows import SHARED, errors

from sizeup.serving.steps.rates import calibration_of
from sizeup.targets import current_catalog

ROWS = SHARED / "truth" / "vidur_ops.parquet"
DEVICES = {"a100": "a100-80gb-sxm", "h100": "h100-sxm"}
PRODUCTS = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")
TOKENS = ((1, 16), (17, 128), (129, 1024), (1025, 32768))


def error_rows() -> Iterator[tuple[str, int, tuple[float, float, float], float]]:
    """GPU and tokens, products, errors, and the median of predicted / measured."""
    table = pq.read_table(ROWS)
    table = table.filter(pc.is_in(table["op"], pc.cast(PRODUCTS, table["op"].type)))  # type: ignore[attr-defined]
    columns = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    for name, device in DEVICES.items():
        rows = (columns["device"] == name) & (columns["num_tokens"] > 0)
        tokens = columns["num_tokens"][rows]
        times = _seconds({key: values[rows] for key, values in columns.items()}, device)
        truth = columns["latency_ms"][rows] / 1e3
        for low, high in TOKENS:
            here = (tokens >= low) & (tokens <= high)
            ratio = float(np.median(times[here] / truth[here]))
            yield (
                f"{device}, {low:,} to {high:,} tokens",
                int(here.sum()),
                errors(times[here], truth[here]),
                ratio,
            )


def _seconds(columns: dict[str, np.ndarray], device: str) -> np.ndarray:
    calibration, known = calibration_of("vllm", device), current_catalog().device(device)
    peak = known.peak("bf16")
    assert calibration is not None
    assert known.bandwidth is not None
    assert peak is not None
    rates, hidden, op = calibration.rates[device], columns["n_embd"], columns["op"]
    width = hidden / columns["n_head"]
    queries = width * (columns["n_head"] + 2 * columns["n_kv_head"])
    up = columns["n_ff"] * np.where(columns["gated"].astype(bool), 2, 1)
    elements = (
        hidden
        * np.select([op == name for name in PRODUCTS], [queries, hidden, up, columns["n_ff"]])
        / columns["tp"]
    )
    traffic = 2 * elements / (known.bandwidth * rates.weights)
    arithmetic = elements * columns["num_tokens"] / (peak * rates.bf16)
    return (traffic**4 + arithmetic**4) ** 0.25 + rates.kernel_seconds
