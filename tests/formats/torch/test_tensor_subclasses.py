"""Weights that are tensor subclasses: torchao's quantized weights, and subclasses that cannot be read."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sizeup

pytestmark = pytest.mark.filterwarnings("ignore")  # torchao warns about kernels for GPUs

FEATURES = ((256, 512), (512, 128))  # of the two layers
ROWS = 4
BIASES = 4 * (512 + 128)
MACS = ROWS * (256 * 512 + 512 * 128)
PARAMS = 256 * 512 + 512 * 128 + 512 + 128
INPUTS = ((ROWS, 256),)


def network() -> Any:
    """Two linear layers."""
    (a, b), (c, d) = FEATURES
    return nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(c, d)).eval()


def quantized(config: str, **options: Any) -> Any:
    """The network with the weights of a configuration of torchao."""
    quantization = pytest.importorskip("torchao.quantization")
    module = network()
    quantization.quantize_(module, getattr(quantization, config)(**options))
    return module


def in_groups(config: str, dtype: str) -> Any:
    """The network with weights in groups of 32."""
    quantization = pytest.importorskip("torchao.quantization")
    kind = "weight_granularity" if "Activation" in config else "granularity"
    return quantized(
        config, weight_dtype=getattr(torch, dtype), **{kind: quantization.granularity.PerGroup(32)}
    )


def normal_float() -> Any:
    """The network with 4-bit weights, two per byte."""
    nf4 = pytest.importorskip("torchao.quantization.quantize_.workflows.nf4.nf4_tensor")
    module = network()
    for layer in (module[0], module[2]):
        layer.weight = nn.Parameter(nf4.to_nf4(layer.weight.detach()), requires_grad=False)
    return module


def packed_int4() -> Any:
    """The network with int4 weights, two per byte, in groups of 32."""
    int4 = pytest.importorskip("torchao.prototype.quantization.int4.int4_opaque_tensor")
    module = network()
    for layer in (module[0], module[2]):
        weight = int4.Int4OpaqueTensor.from_hp(layer.weight.detach(), [1, 32])
        layer.weight = nn.Parameter(weight, requires_grad=False)
    return module


def per_row(scale_bytes: int) -> Callable[[int, int], int]:
    """Bytes of a weight at 8 bits with scales per row."""
    return lambda rows, columns: rows * columns + scale_bytes * rows


def per_group(rows: int, columns: int) -> int:
    """Bytes of a weight in bytes, with a float32 scale and an int8 zero point per 32 weights."""
    return rows * columns + (4 + 1) * rows * columns // 32


def per_block(rows: int, columns: int) -> int:
    """Bytes of NF4: 4 bits, an int8 scale per 64, a float32 factor per 256 scales, a mean, 16 levels."""
    weights = rows * columns
    return weights // 2 + weights // 64 + 4 * weights // (64 * 256) + 4 + 4 * 16


# A float32 scale and an int8 zero point: 5 bytes per row. float8 has no zero point.
CONFIGURATIONS: dict[str, tuple[Callable[[], Any], Callable[[int, int], int], str]] = {
    "int8": (
        lambda: quantized("Int8WeightOnlyConfig"),
        per_row(5),
        "int8, 1 scale and zero point per row (Int8Tensor)",
    ),
    "int8 activations": (
        lambda: quantized("Int8DynamicActivationInt8WeightConfig"),
        per_row(5),
        "int8, 1 scale and zero point per row (Int8Tensor)",
    ),
    "float8": (
        lambda: quantized("Float8WeightOnlyConfig"),
        per_row(4),
        "float8_e4m3fn, 1 scale per row (Float8Tensor)",
    ),
    "intx": (
        lambda: quantized("IntxWeightOnlyConfig", weight_dtype=torch.int8),
        per_row(5),
        "int8, 1 scale and zero point per row (IntxUnpackedToInt8Tensor, int8 values)",
    ),
    "intx groups": (
        lambda: in_groups("IntxWeightOnlyConfig", "int4"),
        per_group,
        "int8, 1 scale and zero point per 32 weights (IntxUnpackedToInt8Tensor, int4 values)",
    ),
    "intx groups and int8 activations": (
        lambda: in_groups("Int8DynamicActivationIntxWeightConfig", "int4"),
        per_group,
        "int8, 1 scale and zero point per 32 weights (IntxUnpackedToInt8Tensor, int4 values)",
    ),
    "int4 groups": (
        packed_int4,
        lambda rows, columns: rows * columns // 2 + (4 + 4) * rows * columns // 32,
        "uint8, 2 weights per element, 1 scale and zero point per 32 weights (Int4OpaqueTensor)",
    ),
    "nf4": (
        normal_float,
        per_block,
        "uint8, 2 weights per element, 1 scale per 64 weights (NF4Tensor)",
    ),
}


def bytes_inside(tensor: Any) -> int:
    """The bytes of all tensors inside a subclass."""
    if not hasattr(tensor, "__tensor_flatten__"):
        return int(tensor.numel() * tensor.element_size())
    return sum(bytes_inside(getattr(tensor, name)) for name in tensor.__tensor_flatten__()[0])


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_weights_take_the_bytes_of_their_inner_tensors(name: str) -> None:
    make, formula, scheme = CONFIGURATIONS[name]
    module = make()
    report = sizeup.analyze(module, inputs=INPUTS)
    by_hand = sum(formula(rows, columns) for columns, rows in FEATURES) + BIASES
    assert by_hand == sum(bytes_inside(parameter) for parameter in module.parameters())
    assert report.totals.weight_bytes == by_hand
    assert (report.totals.params, report.totals.macs) == (PARAMS, MACS)
    assert all(op.known for op in report.ops)
    assert report.graph.notes == (f"2 weights are stored as {scheme}",)


def test_dequantized_weights_are_traffic() -> None:
    report = sizeup.analyze(in_groups("IntxWeightOnlyConfig", "int4"), inputs=INPUTS)
    first = report.ops[0]
    columns, rows = FEATURES[0]
    assert (first.op_kind, first.params) == ("dequantize", rows * columns)
    assert first.read_bytes == per_group(rows, columns)
    assert first.written_bytes == 4 * rows * columns
    assert first.elementwise_ops == 2 * rows * columns
    product = report.ops[1]
    assert product.op_kind == "matmul"
    assert product.read_bytes == 4 * (ROWS * columns + rows * columns + rows)


def test_dynamic_quantization_of_activations_is_counted() -> None:
    report = sizeup.analyze(quantized("Int8DynamicActivationInt8WeightConfig"), inputs=INPUTS)
    (range_, quantize), columns = report.ops[:2], FEATURES[0][0]
    assert (range_.op_kind, range_.elementwise_ops) == ("min_max", 2 * ROWS * columns)
    assert (quantize.op_kind, quantize.elementwise_ops) == ("quantize", 2 * ROWS * columns)
    # Of float32: the data and one scale per row; of int8: a zero point per row, and the result.
    assert (quantize.read_bytes, quantize.written_bytes) == (4 * ROWS * (columns + 1) + ROWS, ROWS * columns)
    assert [op.macs for op in report.ops if op.op_kind == "matmul"] == [ROWS * a * b for a, b in FEATURES]


def test_the_scheme_is_shown_with_the_weight() -> None:
    report = sizeup.analyze(quantized("IntxWeightOnlyConfig", weight_dtype=torch.int8), inputs=INPUTS)
    lines = dict(sizeup.explain(report, 0).lines)
    assert lines["input 0"] == "0.weight 512x256 int8 parameter, 1 scale and zero point per row"


@pytest.mark.parametrize("name", ["int8", "int8 activations", "intx groups"])
def test_a_comparison_shows_the_ratio_and_matches_the_layers(name: str) -> None:
    make, formula, _ = CONFIGURATIONS[name]
    comparison = sizeup.compare(network(), make(), inputs=INPUTS)
    totals: dict[str, Any] = {total.name: (total.a, total.b) for total in comparison.totals}
    stored = sum(formula(rows, columns) for columns, rows in FEATURES) + BIASES
    assert totals["weight_bytes"] == (4 * PARAMS, stored)
    assert totals["macs"] == (MACS, MACS)
    assert totals["params"] == (PARAMS, PARAMS)
    matched = [row for row in comparison.rows if row.a and row.b and "matmul" in row.a_op_kinds]
    assert [row.name for row in matched] == ["0", "2"]
    assert all("matmul" in row.b_op_kinds for row in matched)
    assert comparison.unexplained_macs == 0


def test_tied_weights_count_once() -> None:
    module = quantized("Int8WeightOnlyConfig")
    tied: Any = nn.Sequential(module[0], nn.Linear(512, 256), nn.Linear(256, 512)).eval()
    tied[2].weight = module[0].weight  # the same object
    once = 256 * 512 + 5 * 512
    plain = 4 * (512 + 512 * 256 + 256 + 512)
    assert sizeup.analyze(tied, inputs=INPUTS).totals.weight_bytes == once + plain
    # Another object over the same inner tensors.
    tied[2].weight = nn.Parameter(module[0].weight.detach(), requires_grad=False)
    assert tied[2].weight is not tied[0].weight
    totals = sizeup.analyze(tied, inputs=INPUTS).totals
    assert totals.weight_bytes == once + plain
    assert totals.params == 256 * 512 + plain // 4


@pytest.mark.parametrize("name", ["int8", "int8 activations", "float8", "intx groups"])
def test_an_exported_program_costs_the_same(name: str, tmp_path: Path) -> None:
    make, formula, _ = CONFIGURATIONS[name]
    module = make()
    expected = sizeup.analyze(module, inputs=INPUTS).totals
    assert expected.weight_bytes == sum(formula(rows, columns) for columns, rows in FEATURES) + BIASES
    program = torch.export.export(module, (torch.zeros(INPUTS[0]),))
    assert sizeup.analyze(program).totals == expected
    path = tmp_path / "wrapped.pt2"
    torch.export.save(program, path)
    with pytest.raises(
        sizeup.LoadError, match=r"0\.weight: pickled weights .*unwrap_tensor_subclass\(module\)"
    ):
        sizeup.load(path)
    pytest.importorskip("torchao.utils").unwrap_tensor_subclass(module)
    assert sizeup.analyze(module, inputs=INPUTS).totals == expected
    path = tmp_path / "unwrapped.pt2"
    torch.export.save(torch.export.export(module, (torch.zeros(INPUTS[0]),)), path)
    report = sizeup.analyze(path)
    assert report.totals == expected
    assert all(op.known for op in report.ops)


def test_a_symbolic_batch_costs_the_same() -> None:
    module = quantized("Int8DynamicActivationInt8WeightConfig")
    graph = sizeup.load(module, inputs=INPUTS, free={"batch": (0, 0)}).at(batch=2 * ROWS)
    expected = sizeup.count(module, inputs=((2 * ROWS, 256),))
    cost = sizeup.count(graph)
    assert (cost.total_macs, cost.total_params) == (2 * MACS, PARAMS)
    assert cost.stored_bytes == expected.stored_bytes
    assert cost.bytes_at().read.tolist() == expected.bytes_at().read.tolist()


class Wrapper(Tensor):
    """A subclass that holds one tensor and computes with it."""

    held: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapper:
        wrapper: Wrapper = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        return wrapper

    def __init__(self, inner: Tensor) -> None:
        self.held = inner

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch declares it as a method
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        plain = [arg.held if isinstance(arg, Wrapper) else arg for arg in args]
        result = func(*plain, **(kwargs or {}))
        return cls(result) if func is torch.ops.aten.detach.default else result


class Readable(Wrapper):
    """A subclass as it should be."""

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["held"], None


class Failing(Wrapper):
    """A subclass whose flattening fails."""

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        raise RuntimeError("no tensors today")


class Looping(Wrapper):
    """A subclass that contains itself."""

    @property
    def itself(self) -> Looping:
        """The same object."""
        return self

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["itself"], None


class Growing(Wrapper):
    """A subclass that contains a new subclass at every level."""

    @property
    def deeper(self) -> Growing:
        """A new object."""
        return Growing(self.held)

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["deeper"], None


class Exiting(Wrapper):
    """A subclass whose flattening ends the process."""

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        raise SystemExit(3)


class Endless(Wrapper):
    """A subclass that never stops to name tensors."""

    def __tensor_flatten__(self) -> tuple[Any, None]:
        return itertools.repeat("held"), None


class Sparse(Wrapper):
    """A subclass that holds a sparse tensor."""

    @property
    def sparse(self) -> Tensor:
        """A tensor without a single storage."""
        return self.held.to_sparse()

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["sparse"], None


class WrongName(Wrapper):
    """A subclass that names an attribute which does not exist."""

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["data_of_nobody"], None


class WrongValue(Wrapper):
    """A subclass that names something else than a tensor."""

    def __tensor_flatten__(self) -> tuple[list[Any], None]:
        return [7], None


class Empty(Wrapper):
    """A subclass that names no tensor."""

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return [], None


def wrapped(kind: type[Wrapper]) -> nn.Linear:
    """A layer with a weight of this subclass."""
    layer = nn.Linear(8, 6, bias=False).eval()
    layer.weight = nn.Parameter(kind(layer.weight.detach()), requires_grad=False)
    return layer


def test_operators_of_a_subclass_are_recorded_on_its_inner_tensors() -> None:
    report = sizeup.analyze(wrapped(Readable), inputs=((2, 8),))
    assert [op.op_kind for op in report.ops] == ["matmul"]
    assert (report.totals.macs, report.totals.params, report.totals.weight_bytes) == (96, 48, 192)
    assert report.totals.read_bytes == 4 * (16 + 48)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Failing, "RuntimeError: no tensors today"),
        (Looping, "'itself' contains itself"),
        (Growing, "more than 8 levels"),
        (Exiting, "SystemExit: 3"),
        (Endless, "64 inner tensors"),
        (Sparse, "'sparse' is not a dense tensor"),
        (WrongName, "'data_of_nobody'"),
        (WrongValue, "TypeError"),
        (Empty, "names no tensors"),
        (Wrapper, "has no attribute '__tensor_flatten__'"),
    ],
)
def test_a_subclass_that_cannot_be_read_is_unknown(kind: type[Wrapper], reason: str) -> None:
    report = sizeup.analyze(wrapped(kind), inputs=((2, 8),))
    assert report.totals.params == 48
    assert report.totals.weight_bytes > 0
    flagged = [op for op in report.ops if not op.known]
    assert any(op.op_kind == "opaque_weight" and op.name == "weight" for op in flagged)
    assert all(reason in (op.reason or "") for op in flagged)
    assert any(reason in note for note in report.graph.notes)
