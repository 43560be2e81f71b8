"""The columns of a sweep: one row per planned point, with its results or its error.

Unknown values are null, with the reason in another column. Rows are reproducible: they do not depend on the
time of the run or the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, Literal, TypeAlias

import numpy as np

ColumnType: TypeAlias = Literal["text", "int", "float", "bool"]
Columns: TypeAlias = Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]

STORED = "stored"  # the precision of a model with its own dtypes
OK, ERROR = "ok", "error"
_ROWS = 16_384  # per record batch


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its name, type and meaning."""

    name: str
    type: ColumnType
    meaning: str


FIELDS: tuple[Field, ...] = (
    Field("key", "text", "digest of everything that determines the row, in hexadecimal"),
    Field("model", "text", "name of the model in the sweep"),
    Field(
        "model_hash",
        "text",
        "digest of the file and its external weights, or of the name and the version of the library",
    ),
    Field("format", "text", "tflite, onnx, torch, torch.export or language model"),
    Field("target", "text", "device/runtime, or cluster/engine"),
    Field("target_hash", "text", "digest of the target's description and calibration"),
    Field("device", "text", "name of the device or cluster"),
    Field("runtime", "text", "name of the runtime or serving engine"),
    Field("precision", "text", "requested precision (of weights); stored: the model's own dtypes"),
    Field("batch", "int", "requested batch size; null: none"),
    Field("shapes", "text", "requested sizes of dimensions or shapes of inputs, as JSON; empty: none"),
    Field("bind", "text", "requested sizes of symbolic dimensions, as JSON; null: none"),
    Field("input_tokens", "int", "of a language model: tokens of a prompt"),
    Field("output_tokens", "int", "of a language model: tokens of an answer"),
    Field("concurrency", "int", "of a language model: concurrent sequences"),
    Field("requested_kv", "text", "requested precision of the key-value cache; stored: the checkpoint's"),
    Field("requested_layout", "text", "requested layout; default: tensor parallelism in a node"),
    Field("caveat", "text", "symbolic dimensions set to 1 because no size was given; null: none"),
    Field("status", "text", "ok or error"),
    Field("error", "text", "why there is no result"),
    Field("error_kind", "text", "class of the error"),
    Field("ops", "int", "number of ops"),
    Field("known_ops", "int", "number of ops with a known cost; sums are over these"),
    Field("macs", "int", "multiply-accumulates per inference"),
    Field("elementwise_ops", "int", "elementwise operations per inference"),
    Field("params", "int", "parameters"),
    Field("weight_bytes", "int", "weight bytes"),
    Field("read_bytes", "int", "bytes read by ops per inference"),
    Field("written_bytes", "int", "bytes written by ops per inference"),
    Field("intensity", "float", "FLOPs per byte moved"),
    Field("counts_missing", "text", "why counts are null or incomplete"),
    Field("peak_bytes", "int", "peak activation memory, excluding weights"),
    Field(
        "arena_bytes",
        "int",
        "smallest arena that TFLite Micro accepts for the file, at the target's word size",
    ),
    Field("memory_missing", "text", "why peak_bytes or arena_bytes is null"),
    Field("allocated_bytes", "int", "most bytes that PyTorch allocates on a GPU, with weights and inputs"),
    Field("reserved_bytes", "int", "bytes that PyTorch's caching allocator reserves on a GPU"),
    Field("ram_need_bytes", "int", "RAM needed; if undetermined, its lower bound"),
    Field("ram_bytes", "int", "RAM of the target"),
    Field("flash_need_bytes", "int", "flash needed, if the device stores weights in flash; null: no limit"),
    Field("flash_bytes", "int", "flash of such a device"),
    Field("fits", "bool", "whether it fits in RAM and flash; null: undetermined"),
    Field("fits_reason", "text", "why it does not fit, or why that is undetermined"),
    Field("layout", "text", "of a language model: the layout, such as tp4,dp2"),
    Field("kv", "text", "of a language model: precision of the key-value cache"),
    Field("free_bytes", "int", "ram_bytes less ram_need_bytes, of the fullest GPU; negative: missing"),
    Field("gpu_weight_bytes", "int", "weight bytes on the fullest GPU"),
    Field("kv_token_bytes", "int", "cache bytes per token, of all layers, undivided, within all windows"),
    Field("sequence_bytes", "int", "cache bytes of one sequence at its end, of all layers, undivided"),
    Field("max_context", "int", "largest context of that many concurrent sequences"),
    Field("max_sequences", "int", "most sequences of input_tokens + output_tokens, as expected"),
    Field("max_sequences_low", "int", "lower bound of max_sequences"),
    Field("max_sequences_high", "int", "upper bound of max_sequences"),
    Field("tpot_ms", "float", "of a language model: time per output token in milliseconds"),
    Field("tpot_low_ms", "float", "lower end of its 90 % interval; without a calibration, a lower bound"),
    Field("tpot_high_ms", "float", "upper end of its 90 % interval; null: none"),
    Field("ttft_ms", "float", "of a language model: time to the first token in milliseconds"),
    Field("ttft_low_ms", "float", "lower end of its 90 % interval; without a calibration, a lower bound"),
    Field("ttft_high_ms", "float", "upper end of its 90 % interval; null: none"),
    Field("user_tokens_per_second", "float", "output tokens per second of one request: 1000 / tpot_ms"),
    Field("gpu_tokens_per_second", "float", "output tokens per second of all requests, per GPU"),
    Field("times_missing", "text", "why a time of a language model or its interval is null"),
    Field("assumptions", "text", "of a language model: what its configuration does not state"),
    Field("ms", "float", "estimated latency in milliseconds"),
    Field(
        "low_ms", "float", "lower end of the prediction interval; without one, a lower bound of the latency"
    ),
    Field("high_ms", "float", "upper end of the prediction interval"),
    Field("level", "float", "level of the prediction interval, such as 0.9"),
    Field("basis", "text", "basis of the estimate: calibrated, instructions or roofline"),
    Field("latency_missing", "text", "why ms is null"),
    Field("energy_mj", "float", "estimated millijoules per inference"),
    Field("energy_missing", "text", "why energy_mj is null"),
    Field("version", "text", "version of sizeup"),
)
NAMES: tuple[str, ...] = tuple(field.name for field in FIELDS)
"""The columns, in order."""


@cache
def arrow_schema() -> Any:
    """The columns as an Arrow schema."""
    import pyarrow as pa

    types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    return pa.schema([pa.field(field.name, types[field.type], field.name != "key") for field in FIELDS])


def conformed(table: Any) -> Any:
    """A table with exactly these columns; those that an older version did not write are null."""
    import pyarrow as pa

    schema = arrow_schema()
    if table.schema.names == schema.names:
        return table
    names = set(table.column_names)
    columns = [
        table[field.name] if field.name in names else pa.nulls(len(table), field.type) for field in schema
    ]
    return pa.table(columns, schema=schema)


def batch_of(columns: Columns, rows: int) -> Any:
    """Columns as one Arrow record batch; a missing column is null."""
    import pyarrow as pa

    schema = arrow_schema()
    arrays = [
        pa.nulls(rows, field.type) if field.name not in columns else _array(columns[field.name], field.type)
        for field in schema
    ]
    return pa.record_batch(arrays, schema=schema)


def _array(values: Any, arrow_type: Any) -> Any:
    import pyarrow as pa

    # An integer beyond 64 bits cannot be stored exactly and becomes null.
    if arrow_type == pa.int64() and not isinstance(values, np.ndarray):
        values = [None if value is None or value >= 2**63 else value for value in values]
    return pa.array(values, arrow_type)


def batches_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """Rows as record batches of bounded size; missing values are null."""
    source = iter(rows)
    while part := list(islice(source, _ROWS)):
        names = dict.fromkeys(name for row in part for name in row)
        yield batch_of({name: [row.get(name) for row in part] for name in names}, len(part))
