"""Operators that fetch or place numbers by index."""

from __future__ import annotations

from sizeup.graph import Dim
from sizeup.ops.formulas import reads_what_it_writes
from sizeup.ops.rule import Call, OpRule, names, register


def _lookup(
    kind: str, torch: str, onnx: str, tflite: str, *, table: int = 0, weight: int | None = None
) -> None:
    register(
        OpRule(
            kind,
            "lookup",
            "Of the table only the rows that come out are read, and all indices; computes nothing.",
            reads=reads_what_it_writes(table),
            torch=names(torch),
            onnx=names(onnx),
            tflite=names(tflite),
            weight=weight,
        )
    )


_lookup("embedding", "aten.embedding", "-", "-", weight=0)
_lookup(
    "embedding_lookup",
    "-",
    "-",
    "EMBEDDING_LOOKUP EMBEDDING_LOOKUP_SPARSE HASHTABLE_LOOKUP",
    table=1,
    weight=1,
)
_lookup(
    "gather",
    "aten.gather aten.index aten.index_select aten.take aten.take_along_dim aten.masked_select"
    " aten._unsafe_index aten.nonzero aten.nonzero_static aten.unique_dim aten._unique2"
    " aten.unique_consecutive",
    "Gather GatherElements GatherND Compress NonZero Unique com.microsoft::GatherBlockQuantized",
    "GATHER GATHER_ND WHERE UNIQUE",
)


def _scatter(kind: str, torch: str, onnx: str, tflite: str, summary: str) -> None:
    register(
        OpRule(
            kind,
            "lookup",
            summary,
            torch=names(torch),
            onnx=names(onnx),
            tflite=names(tflite),
            overwrites=True,
        )
    )


_scatter(
    "scatter",
    "aten.scatter aten.scatter_add aten.scatter_reduce aten.index_put aten._index_put_impl"
    " aten._unsafe_index_put aten.index_add aten.index_fill aten.put",
    "ScatterElements ScatterND",
    "SCATTER_ND SPARSE_TO_DENSE DENSIFY",
    "Reads its inputs, writes the updated whole; computes nothing.",
)


def _bag(call: Call) -> Dim:
    return call.input(1).elements * call.input(0).shape[-1]


def _bag_reads(call: Call) -> list[Dim]:
    rest = [0 if value is None else value.elements for value in call.inputs[1:]]
    return [_bag(call), *rest]


register(
    OpRule(
        "embedding_bag",
        "lookup",
        "One addition for each number of each row that is looked up.",
        elementwise=_bag,
        reads=_bag_reads,
        torch=names("aten.embedding_bag aten._embedding_bag aten._embedding_bag_forward_only"),
        weight=0,
    )
)
register(
    OpRule(
        "select_boxes",
        "lookup",
        "One visit of each score; the comparisons of boxes depend on the data and are not counted.",
        elementwise=lambda call: call.input(1).elements,
        torch=names("torchvision.nms"),
        onnx=names("NonMaxSuppression"),
        tflite=names("NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5"),
    )
)
