"""Which ops of other formats have kernels in TFLite Micro: lists by hand, compared with the tables."""

from __future__ import annotations

import pytest

from sizeup.backends.tflm import Conversion, conversion_of
from sizeup.backends.tflm.conversion import is_listed
from sizeup.backends.tflm.kernels import RESOLVED
from sizeup.backends.tflm.lowerings import COMPOSED, FOLDED
from sizeup.dtypes import dtype
from sizeup.graph import Body, Constant, Graph, GraphBuilder
from sizeup.ops import cost_rule_of, cost_rules

FLOAT = dtype("float32")

# Op kinds of PyTorch and ONNX operators without a TFLite operator, or with one that the interpreter lacks.
MISSING = [
    *("acos", "affine_grid", "angle", "asin", "atan", "batch_norm_training"),
    *("bitwise", "bucketize", "cholesky", "cholesky_inverse", "cholesky_solve", "concat_from_sequence"),
    *("count_nonzero", "cross_entropy", "deform_conv", "determinant", "difference_loss", "distance"),
    *("draw", "eigen", "embedding_bag", "fold", "grid_sample", "grouped_matmul"),
    *("householder_product", "hyperbolic", "inverse", "is_special", "likelihood_loss", "local_response_norm"),
    *("lu", "lu_solve", "one_hot", "pick", "pointwise", "prod"),
    *("pseudo_inverse", "qr", "roi_align", "roi_pool", "scan", "scatter"),
    *("scatter_add", "select_boxes", "sequence", "sign", "solve", "sort"),
    *("sparse_matmul", "split_to_sequence", "svd", "symmetric_eigen", "tan", "triangular_solve"),
    "unpool",
]
# Op kinds that only .tflite files have.
ONLY_TFLITE = {"cbrt", "complex_part", "reduce", "scatter_new", "segment"}


def one(kind: str, *inputs: tuple[int, ...], source: str = "", constants: int = 0, **attrs: object) -> Graph:
    """A graph of one op that takes an input, tensors of the other shapes, and as many constants."""
    builder = GraphBuilder("one", "onnx")
    taken = [builder.input(f"x{index}", shape, FLOAT) for index, shape in enumerate(inputs)]
    taken += [builder.tensor("c", (1,), FLOAT, Constant("constant")) for _ in range(constants)]
    out = builder.tensor("y", inputs[0], FLOAT)
    builder.op(kind, taken, [out], attrs, source=source or kind)
    builder.outputs.append(out)
    return builder.freeze()


def test_every_op_kind_has_a_kernel_is_folded_is_composed_or_is_missing() -> None:
    kinds = {rule.kind for rule in cost_rules()}
    without = {kind for kind in kinds if not is_listed(kind, "tflite", RESOLVED)}
    assert without == {*FOLDED, *COMPOSED, *MISSING, *ONLY_TFLITE}
    assert not {*FOLDED, *COMPOSED} & {*MISSING, *ONLY_TFLITE}
    assert not FOLDED & set(COMPOSED)


def test_op_kinds_are_composed_of_operators_with_kernels() -> None:
    # tests/backends/tflm/test_refusal.py compares RESOLVED with the interpreter of the package.
    assert {operator for operators in COMPOSED.values() for operator in operators} <= RESOLVED


@pytest.mark.parametrize("kind", MISSING)
def test_an_op_kind_without_a_kernel_is_named(kind: str) -> None:
    assert cost_rule_of(kind)
    assert conversion_of(one(kind, (1, 4))).missing == (kind,)


@pytest.mark.parametrize(
    ("graph", "name"),
    [
        (one("conv", (1, 1, 8, 8, 8), (2, 1, 3, 3, 3)), "3-D conv"),
        (one("pool", (1, 1, 8, 8, 8), taps=8), "3-D pool"),
        (one("pool", (1, 8, 8, 8), taps=8, kernel=(2, 2, 2)), "3-D pool"),  # without a batch
        (one("conv_transpose", (1, 8, 8, 8), (1, 2, 3, 3, 3)), "3-D conv_transpose"),
        (one("resize", (1, 1, 8, 8), taps=16), "resize with 16 taps"),
        (one("resize", (1, 1, 8, 8), taps=4, source="aten._upsample_bilinear2d_aa"), "_aa"),
        (one("cumulate", (1, 8), source="aten.cumprod"), "aten.cumprod"),
        (one("cumulate", (1, 8), source="CumProd"), "CumProd"),
        (one("create", (1, 8), source="aten.randn_like"), "aten.randn_like"),
        (one("pow", (1, 8), (1, 8)), "pow"),
        (one("mylib.fancy", (1, 8)), "mylib.fancy"),  # no cost rule
        (one("pointwise", (1, 8), source="aten.lgamma"), "aten.lgamma"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_op_whose_kind_has_kernels_for_others_is_named(graph: Graph, name: str) -> None:
    (missing,) = conversion_of(graph).missing
    assert missing == name or (name == "_aa" and missing.endswith(name))


@pytest.mark.parametrize(
    "graph",
    [
        one("conv", (1, 1, 8), (2, 1, 3)),
        one("conv", (1, 1, 8, 8), (2, 1, 3, 3)),
        one("pool", (1, 1, 8, 8), taps=4),
        one("resize", (1, 1, 8, 8), taps=4),
        one("cumulate", (1, 8), source="CumSum"),
        one("create", (1, 8), source="aten.zeros_like"),
        one("clamp", (1, 8)),  # one operator for another
        one("batch_norm", (1, 8)),
    ],
)
def test_an_op_with_a_kernel_leaves_nothing_to_state(graph: Graph) -> None:
    assert conversion_of(graph) == Conversion()


def test_tensors_between_composed_operators_have_a_bound() -> None:
    # x * sigmoid(x): one tensor of 8 numbers between two operators; at 8 bits, a fourth of its bytes.
    assert conversion_of(one("silu", (1, 8))) == Conversion((), ("silu",), 32)
    assert conversion_of(one("silu", (1, 8)), dtype("int8")).between_bytes == 8
    assert conversion_of(one("pow", (1, 8), constants=1)).composed == ("pow",)


def test_the_bound_of_attention_includes_its_scores() -> None:
    # Two heads of 64 queries and keys of 4 numbers: scores before and after softmax.
    queries = (1, 2, 64, 4)
    bound = conversion_of(one("attention", queries, queries, queries)).between_bytes
    assert bound >= 2 * 4 * 2 * 64 * 64


def test_constants_are_computed_by_the_converter() -> None:
    builder = GraphBuilder("folded", "torch")
    x = builder.input("x", (4,), FLOAT)
    constant = builder.tensor("c", (4,), FLOAT, Constant("constant"))
    derived = builder.tensor("d", (4,), FLOAT, Constant("derived"))
    builder.op("tan", [constant], [derived])
    out = builder.tensor("y", (4,), FLOAT)
    builder.op("add", [x, derived], [out])
    builder.outputs.append(out)
    assert conversion_of(builder.freeze()) == Conversion()


def test_bodies_of_control_flow_are_part_of_the_graph() -> None:
    builder = GraphBuilder("branches", "onnx")
    x = builder.input("x", (1, 4), FLOAT)
    out = builder.tensor("y", (1, 4), FLOAT)
    bodies = (Body("then", one("tan", (1, 4))), Body("else", one("gelu", (1, 4))))
    builder.op("if", [x], [out], bodies=bodies)
    builder.outputs.append(out)
    conversion = conversion_of(builder.freeze())
    assert (conversion.missing, conversion.composed) == (("tan",), ("gelu",))
