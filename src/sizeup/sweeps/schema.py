"""The table of a sweep: one row for each point that was planned, whether it could be evaluated or not.

What is not known is null, beside a column that says why. No value depends on when it was computed, or by how
many: two runs of one sweep give equal tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, Literal, TypeAlias

import numpy as np

Kind: TypeAlias = Literal["text", "int", "float", "bool"]
Columns: TypeAlias = Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]

STORED = "stored"  # the precision of a model at its own number types
OK, ERROR = "ok", "error"
_ROWS = 16_384  # in one batch


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its name, what it holds, and its meaning for people."""

    name: str
    kind: Kind
    meaning: str


FIELDS: tuple[Field, ...] = (
    Field("key", "text", "digest of all that decides the row, in hexadecimal"),
    Field("model", "text", "the model's name, as the sweep names it"),
    Field(
        "model_hash",
        "text",
        "digest of the file and of weights beside it, or of the name and the version of what builds it",
    ),
    Field("format", "text", "tflite, onnx, torch or torch.export"),
    Field("target", "text", "device/runtime"),
    Field("target_hash", "text", "digest of all that is known of the target"),
    Field("device", "text", "the device's name"),
    Field("runtime", "text", "the runtime's name"),
    Field("precision", "text", "the precision asked for; stored: the model's own number types"),
    Field("batch", "int", "the batch asked for; null: none"),
    Field("shapes", "text", "sizes of dimensions or shapes of inputs asked for, as JSON; empty: none"),
    Field("bind", "text", "sizes of symbolic dimensions asked for, as JSON; null: none"),
    Field(
        "caveat", "text", "symbolic dimensions that no size was given for and that were set to 1; null: none"
    ),
    Field("status", "text", "ok or error"),
    Field("error", "text", "why there is no result"),
    Field("error_kind", "text", "what went wrong, in one word"),
    Field("ops", "int", "operators"),
    Field("known_ops", "int", "operators that could be counted: sums are over these"),
    Field("macs", "int", "multiply-accumulates of a pass"),
    Field("elementwise_ops", "int", "elementwise operations of a pass"),
    Field("params", "int", "parameters"),
    Field("weight_bytes", "int", "bytes of all parameters"),
    Field("read_bytes", "int", "bytes that operators read in a pass"),
    Field("written_bytes", "int", "bytes that operators write in a pass"),
    Field("intensity", "float", "FLOPs for each byte moved"),
    Field("counts_missing", "text", "why counts are null or not whole"),
    Field("peak_bytes", "int", "the most bytes in use at once beside the weights"),
    Field(
        "arena_bytes",
        "int",
        "smallest arena that TFLite Micro accepts for the file, on the target's word size",
    ),
    Field("memory_missing", "text", "why the peak or the arena is null"),
    Field("ram_need_bytes", "int", "RAM that suffices; where that is not known, what is certainly needed"),
    Field("ram_bytes", "int", "RAM that the target has"),
    Field(
        "flash_need_bytes", "int", "flash that suffices, of a device that keeps weights there; null: no limit"
    ),
    Field("flash_bytes", "int", "flash that such a device has"),
    Field("fits", "bool", "whether both suffice; null: cannot be told"),
    Field("fits_reason", "text", "why it does not fit, or why that cannot be told"),
    Field("ms", "float", "estimated milliseconds of a pass"),
    Field(
        "low_ms", "float", "the least of the range of the estimate; without one, what a pass takes at least"
    ),
    Field("high_ms", "float", "the most of it"),
    Field("level", "float", "the share of measurements that the range is stated for"),
    Field("basis", "text", "what the estimate rests on: calibrated or roofline"),
    Field("latency_missing", "text", "why there is no estimate"),
    Field("energy_mj", "float", "estimated millijoules of a pass"),
    Field("energy_missing", "text", "why there is no energy"),
    Field("version", "text", "the version of sizeup"),
)
NAMES: tuple[str, ...] = tuple(field.name for field in FIELDS)
"""The columns, in order."""


@cache
def arrow_schema() -> Any:
    """The same as a schema of Arrow."""
    import pyarrow as pa

    types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    return pa.schema([pa.field(each.name, types[each.kind], each.name != "key") for each in FIELDS])


def conformed(table: Any) -> Any:
    """A table of rows with exactly these columns: those that an older version did not write are null."""
    import pyarrow as pa

    schema = arrow_schema()
    if table.schema.names == schema.names:
        return table
    there = set(table.column_names)
    columns = [
        table[field.name] if field.name in there else pa.nulls(len(table), field.type) for field in schema
    ]
    return pa.table(columns, schema=schema)


def batch_of(columns: Columns, rows: int) -> Any:
    """Columns as one record batch of Arrow; a column that is not given is null."""
    import pyarrow as pa

    schema = arrow_schema()
    arrays = [
        pa.nulls(rows, field.type) if field.name not in columns else _array(columns[field.name], field.type)
        for field in schema
    ]
    return pa.record_batch(arrays, schema=schema)


def _array(values: Any, kind: Any) -> Any:
    import pyarrow as pa

    # A whole number beyond 64 bits cannot be kept exactly: null, as all that is not known.
    if kind == pa.int64() and not isinstance(values, np.ndarray):
        values = [None if value is None or value >= 2**63 else value for value in values]
    return pa.array(values, kind)


def batches_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """Rows as record batches, so many at a time that they take little memory; what a row lacks is null."""
    source = iter(rows)
    while part := list(islice(source, _ROWS)):
        names = dict.fromkeys(name for row in part for name in row)
        yield batch_of({name: [row.get(name) for row in part] for name in names}, len(part))
