"""Bytes of quantized weights as checkpoints store them, with scales and zero points."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup.dtypes import DTYPES, DType

_WORD = 32  # bits of the integers that codes are packed in


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """How a checkpoint stores one weight: the dtype of its elements, and all bytes with its scales."""

    dtype: DType
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class Matrices:
    """`count` equal weight matrices of `outputs` x `inputs`, each with its own scales."""

    outputs: int
    inputs: int
    count: int = 1

    @property
    def elements(self) -> int:
        """Elements of all matrices."""
        return self.count * self.outputs * self.inputs


@dataclass(frozen=True, slots=True)
class WeightScheme:
    """One format of quantized weights: a scale per block of `rows` x `columns` elements.

    0 rows or columns: the block spans that dimension.
    """

    label: str
    dtype: DType
    rows: int = 0
    columns: int = 0
    scale_bits: int = 32
    zero_bits: int = 0  # of a zero point per block; packed along the outputs
    packing: int = 8  # codes of one row, and zero points, fill integers of this width
    input_bytes: int = 0  # per input feature: the index of its group
    matrix_bytes: int = 0  # per matrix: scales of the tensor, a stored shape, a code table
    flat_block: int = 0  # bitsandbytes: elements per scale, regardless of rows
    nested_block: int = 0  # scales per 32-bit scale of these scales

    def bytes_of(self, matrices: Matrices) -> int:
        """All stored bytes of these matrices."""
        outputs, inputs = matrices.outputs, matrices.inputs
        if self.flat_block:
            blocks = _ceil(outputs * inputs, self.flat_block)
            codes = _ceil(outputs * inputs * self.dtype.bits, 8)
            scales = _ceil(blocks * self.scale_bits, 8)
            if self.nested_block:
                scales += 4 * _ceil(blocks, self.nested_block)
            return matrices.count * (codes + scales + self.matrix_bytes)
        across = _ceil(inputs, self.columns or max(inputs, 1))
        blocks = across * _ceil(outputs, self.rows or max(outputs, 1))
        size = outputs * self._packed(inputs * self.dtype.bits) + _ceil(blocks * self.scale_bits, 8)
        if self.zero_bits:
            size += across * self._packed(outputs * self.zero_bits)
        return matrices.count * (size + inputs * self.input_bytes + self.matrix_bytes)

    def stored(self, matrices: Matrices) -> StoredWeight:
        """How these matrices are stored."""
        return StoredWeight(self.dtype, self.bytes_of(matrices))

    def _packed(self, bits: int) -> int:
        return _ceil(bits, self.packing) * self.packing // 8


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)


_FP8, _FP4 = DTYPES["float8_e4m3fn"], DTYPES["float4_e2m1fn"]


def fp8_blocks(rows: int, columns: int) -> WeightScheme:
    """8-bit floats with one 32-bit scale per block (`weight_scale_inv`)."""
    return WeightScheme(f"fp8 in blocks of {rows} x {columns}", _FP8, rows, columns)


def fp8_per_tensor(*, static: bool) -> WeightScheme:
    """8-bit floats with one 32-bit scale per tensor, and one for activations if that is static."""
    return WeightScheme("fp8 per tensor", _FP8, matrix_bytes=4 * static)


def per_channel(dtype: DType, scale_bits: int = 16, zero_bits: int = 0) -> WeightScheme:
    """8 bits with one scale per output channel."""
    name = "fp8" if dtype.family == "float" else dtype.name
    return WeightScheme(f"{name} per channel", dtype, 1, 0, scale_bits, zero_bits)


def grouped_integers(
    bits: int,
    group: int,
    *,
    zero_points: bool,
    indices: bool = False,
    packing: int = _WORD,
    matrix_bytes: int = 0,
    zero_bits: int | None = None,
) -> WeightScheme:
    """Integers with a 16-bit scale, and perhaps a zero point, per output channel and group of inputs."""
    return WeightScheme(
        f"int{bits} in groups of {group}" if group else f"int{bits} per channel",
        DTYPES[f"int{bits}"],
        1,
        group,
        16,
        zero_bits=(bits if zero_bits is None else zero_bits) if zero_points else 0,
        packing=packing,
        input_bytes=4 * indices,
        matrix_bytes=matrix_bytes,
    )


MXFP4 = WeightScheme("mxfp4", _FP4, 1, 32, 8)
MXFP8 = WeightScheme("mxfp8", _FP8, 1, 32, 8)


def nvfp4(*, static: bool = True, group: int = 16) -> WeightScheme:
    """4-bit floats, an 8-bit scale per group, and 32-bit scales of the tensor (and of activations)."""
    return WeightScheme("nvfp4", _FP4, 1, group, 8, matrix_bytes=4 + 4 * static)


def bitsandbytes_4bit(dtype: DType, *, double: bool) -> WeightScheme:
    """4-bit codes of 64 elements per scale; double quantization stores these scales in 8 bits.

    The code tables (16 values; 256 of the scales) are stored with every matrix.
    """
    label = "nf4" if dtype.family == "int" else "fp4"
    if not double:
        return WeightScheme(f"bitsandbytes {label}", dtype, flat_block=64, matrix_bytes=64)
    return WeightScheme(
        f"bitsandbytes {label} with double quantization", dtype, scale_bits=8,
        flat_block=64, nested_block=256, matrix_bytes=64 + 1024,
    )  # fmt: skip
