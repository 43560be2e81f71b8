"""Sizes that depend on data: from the caller's tensors if there are any, otherwise unknown or a bound."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.attention.varlen import varlen_attn

import sizeup
from hand_written.case import Function
from sizeup.results.explanation import explain

RAGGED = torch.nested.nested_tensor([torch.zeros(3, 4), torch.zeros(5, 4)], layout=torch.jagged)


def _chosen(m: Any, x: Tensor) -> Any:
    return m.layer(x[x.sum(1) > 0])


def _model() -> nn.Module:
    return Function(_chosen, layer=nn.Linear(4, 4, bias=False))


def test_a_mask_over_real_rows_has_their_number_and_a_note() -> None:
    report = sizeup.analyze(_model(), inputs=(torch.eye(6, 4),))
    assert (report.totals.macs, report.coverage) == (4 * 16, 1)
    assert report.notes == ("traced with real data: sizes depend on the values of tensors",)


def test_a_mask_over_a_shape_stays_unknown() -> None:
    report = sizeup.analyze(_model(), inputs=((6, 4),))
    assert report.coverage < 1
    assert not report.notes


def test_a_mask_without_weights_stays_unknown() -> None:
    with torch.device("meta"):
        module = _model()
    assert sizeup.analyze(module, inputs=(torch.eye(6, 4),)).coverage < 1


def test_if_the_real_run_fails_the_known_part_is_reported() -> None:
    def failing(m: Any, x: Tensor, index: Tensor) -> Tensor:
        return x[x > 0].sum() + x[index]

    inputs = (torch.ones(4), torch.tensor([9]))  # out of range
    assert 0 < sizeup.analyze(Function(failing), inputs=inputs).coverage < 1


def test_a_nested_input_is_recorded_as_its_rows() -> None:
    graph = sizeup.load(nn.Linear(4, 6), inputs=(RAGGED,))
    assert [graph.tensors[identity].shape for identity in graph.inputs] == [(8, 4)]
    assert [graph.tensors[identity].shape for identity in graph.outputs] == [(8, 6)]
    assert graph.notes == ("traced with real data: the lengths of nested tensors are data",)


def test_a_nested_input_without_weights_is_refused() -> None:
    with torch.device("meta"):
        module = nn.Linear(4, 6)
    with pytest.raises(sizeup.WeightsMissing, match="the lengths of nested tensors are data"):
        sizeup.load(module, inputs=(RAGGED,))


def test_a_bound_on_the_scores_is_stated() -> None:
    module = Function(lambda m, q, ends: varlen_attn(q, q, q, ends, ends, 7, 7))
    report = sizeup.analyze(module, inputs=((14, 2, 8), ((4,), "int32")))
    assert any("upper bound" in note for note in report.notes)
    lengths = torch.tensor([0, 3, 10, 14], dtype=torch.int32)
    assert not sizeup.analyze(module, inputs=(torch.zeros(14, 2, 8), lengths)).notes


def test_a_block_mask_created_in_forward_is_counted_in_full_and_stated() -> None:
    def masked(m: Any, q: Tensor) -> Any:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256, device="cpu")
        return flex_attention(q, q, q, block_mask=mask)

    report = sizeup.analyze(Function(masked), inputs=((1, 1, 256, 16),))
    assert report.totals.macs == 256 * 256 * 32
    assert any("all blocks are counted" in note for note in report.notes)
    # With values, a real run has the mask: 3 of 4 blocks of 128.
    real = sizeup.analyze(Function(masked), inputs=(torch.zeros(1, 1, 256, 16),))
    assert real.totals.macs == 3 * 128 * 128 * 32


def test_functions_of_scores_and_masks_are_one_operation_per_score() -> None:
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256, device="cpu")
    module = Function(
        lambda m, q: flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s + i - j, block_mask=mask)
    )
    report = sizeup.analyze(module, inputs=((1, 1, 256, 16),))
    attention = next(row for row in report.ops if row.op_kind == "attention")
    assert attention.elementwise_ops == 3 * 128 * 128 * (6 + 1 + 1)


def test_a_product_of_two_sparse_matrices_is_unknown() -> None:
    matrix = torch.eye(5).to_sparse()
    cost = sizeup.count(Function(lambda m, a: torch.sparse.mm(a, a)), inputs=(matrix,))
    assert set(cost.reasons.values()) == {"a product of two sparse matrices depends on their indices"}


def test_a_constructor_may_compute_with_ranges() -> None:
    # torchvision publishes 5,495,976 parameters and 0.414 GFLOPs (our MACs) for this model.
    if find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    cost = sizeup.count("torchvision:regnet_x_400mf")
    assert (cost.total_params, round(cost.total_macs / 1e9, 3)) == (5_495_976, 0.414)


def test_explain_shows_the_four_products_of_complex_numbers() -> None:
    report = sizeup.analyze(
        Function(lambda m, a, b: a @ b), inputs=(((2, 3), "complex64"), ((3, 4), "complex64"))
    )
    assert dict(explain(report, 0).lines)["MACs"] == "output elements 8 x input 0[1] 3 x 4 = 96"
