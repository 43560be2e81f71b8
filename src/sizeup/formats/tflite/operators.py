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
OPERATORS: dict[str, Operator] = {
    "ADD": Operator(dtype=0),
    "ADD_N": Operator(dtype=0),
    "ARG_MAX": Operator(dtype=("ArgMaxOptions", "OutputType")),
    "ARG_MIN": Operator(dtype=("ArgMinOptions", "OutputType")),
    "AVERAGE_POOL_2D": Operator(per_image=True),
    "BATCH_TO_SPACE_ND": Operator(data=(0,)),
    "BROADCAST_TO": Operator(data=(0,)),
    "CEIL": Operator(dtype=0),
    "CONV_2D": Operator(channels=0, per_image=True, int8_version=3),
    "CONV_3D": Operator(channels=4),
    "DEPTHWISE_CONV_2D": Operator(channels=3, per_image=True, int8_version=3),
    "DEPTH_TO_SPACE": Operator(per_image=True),
    "DEQUANTIZE": Operator(dtype="float32"),
    "DIV": Operator(dtype=0),
    "DYNAMIC_UPDATE_SLICE": Operator(dtype=0),
    "EMBEDDING_LOOKUP": Operator(channels=0),
    "EQUAL": Operator(dtype="bool"),
    "EXP": Operator(dtype=0),
    "EXPAND_DIMS": Operator(dtype=0, data=(0,)),
    "FILL": Operator(dtype=1),
    "FLOOR": Operator(dtype=0),
    "FLOOR_DIV": Operator(dtype=0),
    "FLOOR_MOD": Operator(dtype=0),
    "FULLY_CONNECTED": Operator(channels=0, int8_version=4),
    "GATHER": Operator(dtype=0, channels=0),
    "GATHER_ND": Operator(dtype=0),
    "GELU": Operator(int8_version=1),
    "GREATER": Operator(dtype="bool"),
    "GREATER_EQUAL": Operator(dtype="bool"),
    "HARD_SWISH": Operator(int8_version=1),
    "L2_POOL_2D": Operator(per_image=True),
    "LESS": Operator(dtype="bool"),
    "LESS_EQUAL": Operator(dtype="bool"),
    "LOGICAL_AND": Operator(dtype="bool"),
    "LOGICAL_OR": Operator(dtype="bool"),
    "MAXIMUM": Operator(dtype=0),
    "MAX_POOL_2D": Operator(per_image=True),
    "MINIMUM": Operator(dtype=0),
    "MIRROR_PAD": Operator(data=(0,)),
    "NEG": Operator(dtype=0),
    "NOT_EQUAL": Operator(dtype="bool"),
    "PAD": Operator(data=(0,)),
    "POW": Operator(dtype=0),
    "PRELU": Operator(dtype=0),
    "RESHAPE": Operator(data=(0,), int8_version=1),
    "RESIZE_BILINEAR": Operator(dtype=0, per_image=True, int8_version=3),
    "RESIZE_NEAREST_NEIGHBOR": Operator(dtype=0, per_image=True),
    "REVERSE_V2": Operator(data=(0,)),
    "ROUND": Operator(dtype=0),
    "SELECT": Operator(dtype=1),
    "SELECT_V2": Operator(dtype=1),
    "SHAPE": Operator(dtype=("ShapeOptions", "OutType")),
    "SLICE": Operator(data=(0,)),
    "SPACE_TO_BATCH_ND": Operator(data=(0,)),
    "SPACE_TO_DEPTH": Operator(per_image=True),
    "SPLIT": Operator(dtype=1, data=(1,)),
    "SPLIT_V": Operator(dtype=0, data=(0,)),
    "SQUARED_DIFFERENCE": Operator(dtype=0),
    "STRIDED_SLICE": Operator(data=(0,)),
    "SUB": Operator(dtype=0),
    "SVDF": Operator(channels=0),
    "TFLM_DECODE": Operator(data=()),
    "TILE": Operator(data=(0,)),
    "TRANSPOSE": Operator(data=(0,)),
    "TRANSPOSE_CONV": Operator(channels=0),
    "ZEROS_LIKE": Operator(dtype=0),
}
