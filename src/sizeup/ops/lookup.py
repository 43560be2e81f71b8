"""Ops that read or write elements by index."""

from __future__ import annotations

import math

from sizeup.graph import Dim
from sizeup.ops.cost_rule import Call, OpRule, names, register
from sizeup.ops.formulas import per_input, per_output, reads_output_size


def _lookup(
    op_kind: str,
    torch: str,
    onnx: str,
    tflite: str,
    *,
    table: int = 0,
    weight: int | None = None,
    traits: str = "",
    alike: str = "",
) -> None:
    register(
        OpRule(
            op_kind,
            "lookup",
            "Reads the selected rows of the table and all indices; no arithmetic.",
            reads=reads_output_size(table),
            torch=names(torch),
            onnx=names(onnx),
            tflite=names(tflite),
            weight=weight,
            traits=names(traits),
            alike=alike,
        )
    )


_lookup("embedding", "aten.embedding", "-", "-", weight=0, traits="weight_rows", alike="lookup")
_lookup(
    "embedding_lookup",
    "-",
    "-",
    "EMBEDDING_LOOKUP",
    table=1,
    weight=1,
    alike="lookup",
)
_lookup(
    "gather",
    "aten.gather aten.index aten.index_select aten.take aten.take_along_dim aten._unsafe_index",
    "Gather GatherElements GatherND com.microsoft::GatherND",
    "GATHER GATHER_ND STABLEHLO_GATHER",
    traits="pointwise",
    alike="lookup",
)


def _rows(call: Call, index: int) -> Dim:
    table = call.input(index)
    return call.input(1).elements * math.prod(table.shape[1:])


register(
    OpRule(
        "gather_dequantize",
        "lookup",
        "2 operations per output element: a scale and a shift. Reads the selected rows.",
        elementwise=per_output(2),
        # Only the selected rows of the table, its scales and its zero points are read.
        reads=lambda call: [
            0 if value is None else value.elements if index == 1 else _rows(call, index)
            for index, value in enumerate(call.inputs)
        ],
        torch=names("quantized.embedding_byte quantized.embedding_4bit"),
        onnx=names("com.microsoft::GatherBlockQuantized"),
        weight=0,
        alike="lookup",
    )
)
register(
    OpRule(
        "pick",
        "lookup",
        "1 operation per input element; the output size depends on data.",
        elementwise=per_input(),
        torch=names(
            "aten.nonzero aten.nonzero_static aten.nonzero_numpy aten.argwhere aten.masked_select"
            " aten.unique_dim aten._unique2 aten.unique_consecutive aten.unique_dim_consecutive"
        ),
        onnx=names("NonZero Unique Compress"),
        tflite=names("WHERE UNIQUE"),
    )
)


register(
    OpRule(
        "scatter",
        "lookup",
        "Reads its inputs, writes the full updated tensor; no arithmetic.",
        torch=names(
            "aten.scatter aten.index_put aten._index_put_impl aten._unsafe_index_put aten.index_fill aten.put"
        ),
        onnx=names("Scatter ScatterElements ScatterND"),
        overwrites=True,
        traits=("keeps_shape",),
    )
)
register(
    OpRule(
        "scatter_add",
        "lookup",
        "Reads its inputs, writes the full updated tensor; 1 operation per element of the update.",
        elementwise=lambda call: call.input(2).elements,
        torch=names("aten.scatter_add aten.scatter_reduce aten.index_add aten.index_reduce"),
        overwrites=True,
    )
)
register(
    OpRule(
        "scatter_new",
        "lookup",
        "Reads indices and values, writes them to a new tensor; no arithmetic.",
        tflite=names("SCATTER_ND SPARSE_TO_DENSE DENSIFY"),
    )
)


register(
    OpRule(
        "decode",
        "lookup",
        "1 lookup per output element; reads the codes as stored, and their tables.",
        elementwise=lambda call: sum(value.elements for value in call.outputs),
        # In the graph, codes have the shape of the decoded weights; `codes` is their stored size in elements.
        reads=lambda call: [
            0 if value is None else value.elements if index % 2 else call.attrs["codes"][index // 2]
            for index, value in enumerate(call.inputs)
        ],
        tflite=names("TFLM_DECODE"),
        every_run=True,
        traits=names("converts"),
    )
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
        "1 addition per element of every selected row.",
        elementwise=_bag,
        reads=_bag_reads,
        torch=names(
            "aten.embedding_bag aten._embedding_bag aten._embedding_bag_forward_only"
            " quantized.embedding_bag_byte quantized.embedding_bag_4bit"
        ),
        weight=0,
    )
)
register(
    OpRule(
        "select_boxes",
        "lookup",
        "1 operation per score; box comparisons depend on data and are not counted.",
        elementwise=lambda call: call.input(1).elements,
        torch=names("torchvision.nms"),
        onnx=names("NonMaxSuppression"),
        tflite=names("NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5"),
    )
)
