"""Build the weights of modules: shapes, stored bytes and how tensor parallelism divides them."""

from __future__ import annotations

from dataclasses import dataclass

from sizeup.dtypes import DTYPES
from sizeup.formats.quantization_config import QuantizationConfig
from sizeup.formats.weight_schemes import MXFP4, MXFP8, WeightScheme, grouped_integers, nvfp4
from sizeup.serving.models.architecture import Role, Weight

DTYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
_FP8, _INT8 = DTYPES["float8_e4m3fn"], DTYPES["int8"]

# Precisions to assume instead of those of a checkpoint. One scale per tensor or channel is not counted.
WEIGHT_PRECISIONS: dict[str, WeightScheme | None] = {
    "bf16": None,
    "fp16": None,
    "fp8": WeightScheme("fp8", _FP8, scale_bits=0),
    "int8": WeightScheme("int8", _INT8, scale_bits=0),
    "int4": grouped_integers(4, 128, zero_points=False),
    "mxfp8": MXFP8,
    "mxfp4": MXFP4,
    "nvfp4": nvfp4(static=False),
}


@dataclass(frozen=True, slots=True)
class Modules:
    """Builds weights by the names under which a checkpoint stores them."""

    dtype: str
    quantization: QuantizationConfig | None = None
    path: str = ""  # of the module that contains them, e.g. `model.layers.3`

    def within(self, name: str) -> Modules:
        """The builder of a module inside this one."""
        return Modules(self.dtype, self.quantization, f"{self.path}.{name}" if self.path else name)

    def linear(
        self,
        name: str,
        outputs: int,
        inputs: int,
        role: Role,
        ways: int = 0,
        *,
        bias: bool = False,
        split_inputs: bool = False,
    ) -> list[Weight]:
        """A matrix, and its bias; the bias of a matrix divided by inputs is replicated."""
        size = outputs * inputs
        weights = [self._weight(name, f"{name}.weight", (outputs, inputs), role, ways, size)]
        if bias:
            weights += self.vector(f"{name}.bias", outputs, role, 1 if split_inputs else ways)
        return weights

    def vector(
        self, name: str, size: int, role: Role = "norm", ways: int = 1, *, macs: int = 0
    ) -> list[Weight]:
        """Parameters that no method quantizes: norms, biases, convolutions."""
        stored = size * DTYPE_BYTES[self.dtype]
        return [Weight(name, role, size, stored, self.dtype, ways, macs)]

    def buffer(self, name: str, size: int) -> list[Weight]:
        """32-bit numbers that a checkpoint stores and that are no parameters."""
        return [Weight(name, "router", 0, 4 * size, "fp32", 1)]

    def experts(
        self, name: str, count: int, per_token: int, outputs: int, inputs: int, *, bias: bool = False
    ) -> list[Weight]:
        """The matrices of all routed experts, as one tensor."""
        macs = per_token * outputs * inputs
        weights = [self._weight(name, name, (count, outputs, inputs), "experts", 0, macs)]
        if bias:
            weights += self.vector(f"{name}_bias", count * outputs, "experts", 0)
        return weights

    def _weight(
        self, name: str, stored_name: str, shape: tuple[int, ...], role: Role, ways: int, macs: int
    ) -> Weight:
        size = 1
        for dimension in shape:
            size *= dimension
        stored = None
        if self.quantization is not None:
            stored = self.quantization.stored(
                f"{self.path}.{stored_name}" if self.path else stored_name, shape
            )
        if stored is None:
            return Weight(name, role, size, size * DTYPE_BYTES[self.dtype], self.dtype, ways, macs)
        return Weight(name, role, size, stored[0].stored_bytes, stored[1].label, ways, macs)


def gated_mlp(
    modules: Modules, hidden: int, width: int, role: Role = "dense", *, bias: bool = False
) -> list[Weight]:
    """Gate, up and down projections."""
    return [
        *modules.linear("gate_proj", width, hidden, role, bias=bias),
        *modules.linear("up_proj", width, hidden, role, bias=bias),
        *modules.linear("down_proj", hidden, width, role, bias=bias, split_inputs=True),
    ]


def plain_mlp(
    modules: Modules, hidden: int, width: int, role: Role = "dense", *, bias: bool = False
) -> list[Weight]:
    """Up and down projections, with an activation without parameters."""
    return [
        *modules.linear("up_proj", width, hidden, role, bias=bias),
        *modules.linear("down_proj", hidden, width, role, bias=bias, split_inputs=True),
    ]
