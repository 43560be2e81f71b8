"""Unusual models with hand-computed counts: broadcasts, tied weights, containers, data-dependent code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

import sizeup
from sizeup.errors import InvalidGraph


class Call(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Any:
        return self.function(*tensors)


def _macs(function: Callable[..., Any], *shapes: tuple[int, ...]) -> int:
    return sizeup.count(Call(function), inputs=tuple(torch.zeros(shape) for shape in shapes)).total_macs


@pytest.mark.parametrize(
    ("shapes", "scores", "products"),
    [
        # Batch 3, 4 heads, 5 queries, 7 keys, size 4: q k^T and the product with v, each 3 x 4 x 5 x 7 x 4.
        ([(3, 4, 5, 4), (3, 4, 7, 4), (3, 4, 7, 4)], 12, 12),
        ([(1, 4, 5, 4), (3, 4, 7, 4), (3, 4, 7, 4)], 12, 12),
        ([(3, 1, 5, 4), (3, 4, 7, 4), (3, 4, 7, 4)], 12, 12),
        ([(1, 4, 5, 4), (1, 4, 7, 4), (3, 4, 7, 4)], 4, 12),
        ([(1, 4, 5, 4), (1, 4, 7, 4), (1, 4, 7, 4), (3, 4, 5, 7)], 4, 12),
        ([(3, 4, 5, 4), (1, 1, 7, 4), (1, 1, 7, 4)], 12, 12),
    ],
)
def test_attention_counts_what_is_broadcast(
    shapes: list[tuple[int, ...]], scores: int, products: int
) -> None:
    assert _macs(functional.scaled_dot_product_attention, *shapes) == (scores + products) * 5 * 7 * 4


def test_a_chain_of_products_is_taken_apart() -> None:
    # (10x2)(2x20)(20x3): the cheaper order is 2x20x3 first, then 10x2x3.
    assert _macs(lambda a, b, c: torch.linalg.multi_dot([a, b, c]), (10, 2), (2, 20), (20, 3)) == 120 + 60


def test_bilinear_contracts_the_first_input_first() -> None:
    cost = sizeup.count(nn.Bilinear(5, 6, 7, bias=False), inputs=((3, 5), (3, 6)))
    assert cost.total_macs == 3 * 7 * (5 * 6 + 6)


def test_a_destination_is_no_operand() -> None:
    def into(a: Tensor, b: Tensor) -> Tensor:
        return torch.mm(a, b, out=torch.empty(3, 5))

    report = sizeup.analyze(Call(into), inputs=(torch.zeros(3, 4), torch.zeros(4, 5)))
    product = next(row for row in report.ops if row.op_kind == "matmul")
    assert (product.macs, product.elementwise_ops, product.read_bytes) == (60, 0, (12 + 20) * 4)


class Repeated(nn.Module):
    """One product per list element."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4, bias=False)

    def forward(self, x: Tensor, sizes: list[int] | tuple[int, ...]) -> Tensor:
        for _ in sizes:
            x = self.layer(x)
        return x


@pytest.mark.parametrize("sizes", [[3, 5, 7, 9], (3, 5)])
def test_a_list_of_ints_beside_a_tensor_is_a_list_of_ints(sizes: list[int]) -> None:
    assert sizeup.count(Repeated(), inputs=(torch.zeros(1, 4), sizes)).total_macs == 16 * len(sizes)


def test_weights_tied_by_their_bytes_are_one_in_both_doors() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    module[1].weight.data = module[0].weight.data
    expected = 16 + 4 + 4
    assert sizeup.count(module, inputs=((1, 4),)).total_params == expected
    assert sizeup.count(torch.export.export(module, (torch.zeros(1, 4),))).total_params == expected


def test_a_piece_of_a_weight_brings_its_parameters_along() -> None:
    class Piece(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(12, 4))

        def forward(self, x: Tensor) -> Tensor:
            return functional.linear(x, self.weight.chunk(3)[1])

    report = sizeup.analyze(Piece(), inputs=(torch.zeros(2, 4),))
    assert [row.params for row in report.ops if row.op_kind == "matmul"] == [48]


def test_containers_on_the_model_are_left_as_they_were() -> None:
    class Keeping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.cache: list[Tensor] = []
            self.table: dict[str, Tensor] = {}

        def forward(self, x: Tensor) -> Tensor:
            self.cache.append(self.layer(x))
            self.table["last"] = self.cache[-1]
            return torch.cat(self.cache, 0)

    module = Keeping()
    sizeup.analyze(module, inputs=(torch.zeros(2, 4),))
    assert (module.cache, module.table) == ([], {})
    assert module(torch.zeros(2, 4)).shape == (2, 4)


def test_the_callers_tensor_is_not_written_into() -> None:
    def doubled(x: Tensor) -> Tensor:
        x.mul_(2)
        return x if float(x.sum()) > 1e9 else -x

    data = torch.ones(2, 4)
    assert "real data" in sizeup.analyze(Call(doubled), inputs=(data,)).notes[0]
    assert torch.equal(data, torch.ones(2, 4))


class Packed(nn.Module):
    """A recurrent layer over sequences of 7, 4 and 2 steps."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 6, batch_first=True, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, [7, 4, 2], batch_first=True)
        result: Tensor = self.lstm(packed)[0].data
        return result


def test_packed_sequences_count_the_steps_that_are_there() -> None:
    assert sizeup.count(Packed(), inputs=((3, 7, 5),)).total_macs == 13 * 4 * 6 * (5 + 6)


@pytest.mark.parametrize(
    "look",
    [lambda x: x.numpy(), lambda x: np.asarray(x), lambda x: f"{x.mean():.3f}"],
    ids=["numpy", "array", "text"],
)
def test_a_model_that_looks_at_its_numbers_in_its_own_way_is_run_with_them(
    look: Callable[[Tensor], Any],
) -> None:
    def looking(x: Tensor) -> Tensor:
        look(x)
        return x @ x

    assert _macs(looking, (4, 4)) == 64


def test_a_model_that_cannot_be_copied_is_a_load_error() -> None:
    module = Call(lambda x: x if float(x.sum()) > 0 else -x)
    module.lock = threading.Lock()  # type: ignore[assignment]  # any object may be an attribute
    with pytest.raises(sizeup.LoadError, match="cannot pickle"):
        sizeup.load(module, inputs=(torch.ones(2, 4),))


def test_a_forward_that_exits_does_not_end_the_tool() -> None:
    def leave(x: Tensor) -> Tensor:
        raise SystemExit(0)

    with pytest.raises(sizeup.LoadError, match="SystemExit"):
        sizeup.load(Call(leave), inputs=(torch.ones(2, 4),))


@pytest.mark.filterwarnings("ignore:.torch.jit.:DeprecationWarning")
def test_scripted_modules_count_as_what_they_were_made_from() -> None:
    plain = nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU()).eval()
    traced = torch.jit.trace(plain, torch.zeros(2, 4))  # type: ignore[no-untyped-call]
    for scripted in (traced, torch.jit.script(plain)):
        assert sizeup.count(nn.Sequential(scripted), inputs=((2, 4),)).total_macs == 48


def test_sizes_that_an_exported_program_does_not_allow_are_refused(tmp_path: Path) -> None:
    program = torch.export.export(nn.Linear(4, 5), (torch.zeros(2, 4),))
    for inputs, message in [((64, 4), "conflicting sizes 2 and 64"), ((64, 4, 9), "has 2 dimensions, not 3")]:
        with pytest.raises(sizeup.LoadError, match=message):
            sizeup.load(program, inputs=(inputs,))
    with pytest.raises(sizeup.LoadError, match="conflicting sizes 2 and 64"):
        sizeup.load(program, bind={"input.0": 64})
    with pytest.raises(sizeup.LoadError, match="no dimension named 2"):
        sizeup.load(program, bind={"2": 64})


def test_bytes_of_absurd_weights_do_not_wrap_around() -> None:
    def embedding(rows: int) -> nn.Module:
        with torch.device("meta"):
            return nn.Embedding(rows, 2**19)

    inputs = (((1, 2), "int64"),)
    assert sizeup.count(embedding(2**35), inputs=inputs).bytes_at().weights == 2**56
    with pytest.raises(InvalidGraph, match="more than 64 PiB"):
        sizeup.count(embedding(2**40), inputs=inputs)
