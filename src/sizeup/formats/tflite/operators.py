"""Builtin operators of TFLite: what LiteRT and the files know of each, next to the rule of its op kind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The properties of one operator; those of an operator that is not listed are the defaults."""

    # The dtype of its outputs if the kernel sets it whatever the file records: a name, the input that has it,
    # or the table and the field of the options that state it. Other kernels refuse another one on record.
    dtype: str | int | tuple[str, str] | None = None
    data: tuple[int, ...] | None = None  # inputs with data, if the others hold shapes, axes and offsets
    channels: int | None = None  # the axis of output channels of its weight
    per_image: bool = False  # treats each image of the batch separately
    int8_version: int = 2  # the first version of the operator that takes int8


def operator_of(name: str) -> Operator:
    """The properties of an operator by its name in the schema."""
    return OPERATORS.get(name, _UNLISTED)


_UNLISTED = Operator()
_FIRST = Operator(dtype=0)
_SECOND = Operator(dtype=1)
_BOOLEAN = Operator(dtype="bool")
_DATA = Operator(data=(0,))
_ROWS = Operator(channels=0)
_IMAGES = Operator(per_image=True)
OPERATORS: dict[str, Operator] = {
    "ADD": _FIRST, "ADD_N": _FIRST, "AVERAGE_POOL_2D": _IMAGES, "BATCH_TO_SPACE_ND": _DATA,
    "BROADCAST_TO": _DATA, "CEIL": _FIRST, "DEPTH_TO_SPACE": _IMAGES, "DIV": _FIRST,
    "DYNAMIC_UPDATE_SLICE": _FIRST, "EMBEDDING_LOOKUP": _ROWS, "EQUAL": _BOOLEAN, "EXP": _FIRST,
    "FILL": _SECOND, "FLOOR": _FIRST, "FLOOR_DIV": _FIRST, "FLOOR_MOD": _FIRST, "GATHER_ND": _FIRST,
    "GREATER": _BOOLEAN, "GREATER_EQUAL": _BOOLEAN, "L2_POOL_2D": _IMAGES, "LESS": _BOOLEAN,
    "LESS_EQUAL": _BOOLEAN, "LOGICAL_AND": _BOOLEAN, "LOGICAL_OR": _BOOLEAN, "MAXIMUM": _FIRST,
    "MAX_POOL_2D": _IMAGES, "MINIMUM": _FIRST, "MIRROR_PAD": _DATA, "NEG": _FIRST, "NOT_EQUAL": _BOOLEAN,
    "PAD": _DATA, "POW": _FIRST, "PRELU": _FIRST, "REVERSE_V2": _DATA, "ROUND": _FIRST, "SELECT": _SECOND,
    "SELECT_V2": _SECOND, "SLICE": _DATA, "SPACE_TO_BATCH_ND": _DATA, "SPACE_TO_DEPTH": _IMAGES,
    "SQUARED_DIFFERENCE": _FIRST, "STRIDED_SLICE": _DATA, "SUB": _FIRST, "SVDF": _ROWS, "TILE": _DATA,
    "TRANSPOSE": _DATA, "TRANSPOSE_CONV": _ROWS, "ZEROS_LIKE": _FIRST,
    "ARG_MAX": Operator(dtype=("ArgMaxOptions", "OutputType")),
    "ARG_MIN": Operator(dtype=("ArgMinOptions", "OutputType")),
    "CONV_2D": Operator(channels=0, per_image=True, int8_version=3),
    "CONV_3D": Operator(channels=4),
    "DEPTHWISE_CONV_2D": Operator(channels=3, per_image=True, int8_version=3),
    "DEQUANTIZE": Operator(dtype="float32"),
    "EXPAND_DIMS": Operator(dtype=0, data=(0,)),
    "FULLY_CONNECTED": Operator(channels=0, int8_version=4),
    "GATHER": Operator(dtype=0, channels=0),
    "GELU": Operator(int8_version=1),
    "HARD_SWISH": Operator(int8_version=1),
    "RESHAPE": Operator(data=(0,), int8_version=1),
    "RESIZE_BILINEAR": Operator(dtype=0, per_image=True, int8_version=3),
    "RESIZE_NEAREST_NEIGHBOR": Operator(dtype=0, per_image=True),
    "SHAPE": Operator(dtype=("ShapeOptions", "OutType")),
    "SPLIT": Operator(dtype=1, data=(1,)),
    "SPLIT_V": Operator(dtype=0, data=(0,)),
    "TFLM_DECODE": Operator(data=()),
}  # fmt: skip
