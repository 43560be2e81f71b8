"""Reused results of operators on fake tensors: the same shapes, strides, dtypes and storages as real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from sizeup.formats.torch.eager import fake_mode, record
from sizeup.formats.torch.fake_results import FakeResults

CALLS: dict[str, Callable[[Tensor], Any]] = {
    "add": lambda x: x + 1,
    "a number of another type": lambda x: (x * 1, x * 1.0, x * True),
    "add in place": lambda x: x.clone().add_(1),
    "transpose": lambda x: x.transpose(0, 1),
    "reshape as a view": lambda x: x.reshape(2, 12),
    "reshape as a copy": lambda x: x.transpose(0, 1).reshape(24),
    "slice": lambda x: x[1:, ::2],
    "chunk": lambda x: x.chunk(3, dim=1),
    "unbind": lambda x: x.unbind(0),
    "expand": lambda x: x[:, :1].expand(4, 6),
    "other dtype": lambda x: x.view(torch.int32),
    "contiguous": lambda x: (x.contiguous(), x.t().contiguous()),
    "max along a dimension": lambda x: x.max(dim=1),
    "concatenation": lambda x: torch.cat([x, x], dim=1),
    "sort": lambda x: x.sort(dim=0),
    "matmul": lambda x: x @ x.t(),
    "complex": lambda x: torch.view_as_real(torch.complex(x, x).conj().resolve_conj()),
    "shape changed in place": lambda x: x.clone().t_(),
}


class _Reusing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Calls all operators through FakeResults."""

    def __init__(self, results: FakeResults) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.results = results

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.results.call(func, args, kwargs or {})


def _described(data: Tensor, result: Any) -> list[Any]:
    """Shape, strides, offset and dtype of each tensor, and the first tensor that shares its storage."""
    tensors = [result] if isinstance(result, Tensor) else list(result)
    storages = [tensor.untyped_storage()._cdata for tensor in (data, *tensors)]
    return [
        (tuple(each.shape), each.stride(), each.storage_offset(), each.dtype, storages.index(storage))
        for each, storage in zip(tensors, storages[1:], strict=True)
    ]


@pytest.mark.parametrize("name", CALLS)
def test_results_are_laid_out_as_real_ones_every_time(name: str) -> None:
    function = CALLS[name]
    with torch.inference_mode():
        real = torch.rand(4, 6)
        expected = _described(real, function(real))
        mode = fake_mode()
        with mode, _Reusing(FakeResults(mode)):
            for _ in range(3):
                fake = torch.rand(4, 6)
                result = function(fake)
                assert _described(fake, result) == expected
                tensors = [result] if isinstance(result, Tensor) else result
                assert all(type(tensor) is FakeTensor for tensor in tensors)


def test_an_operator_in_place_returns_its_argument() -> None:
    mode = fake_mode()
    with torch.inference_mode(), mode, _Reusing(FakeResults(mode)):
        for _ in range(3):
            data = torch.rand(4, 6)
            assert data.add_(1) is data


def test_sizes_that_depend_on_data_are_not_reused() -> None:
    mode = fake_mode()
    with torch.inference_mode(), mode, _Reusing(FakeResults(mode)):
        sizes = [torch.rand(4, 6).nonzero().shape[0] for _ in range(2)]
    assert str(sizes[0]) != str(sizes[1])


def test_repeated_operators_run_once() -> None:
    calls = []

    class Counted(FakeResults):
        def _entry(self, result: Any, tensors: list[Any]) -> list[Any]:
            calls.append(result)
            return super()._entry(result, tensors)

    mode = fake_mode()
    with torch.inference_mode(), mode, _Reusing(Counted(mode)):
        data = torch.rand(4, 6)
        for _ in range(100):
            data = data.mul(2).transpose(0, 1).reshape(4, 6)
    assert len(calls) <= 2 * 3  # data is contiguous from the second iteration on


class _ViewsOfWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.rand(8, 1, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for weight in self.weights:
            x = nn.functional.conv1d(x, weight.squeeze(1).unsqueeze(1), groups=8)
        return x


def test_views_of_weights_are_recorded_in_inference_mode() -> None:
    graph = record(_ViewsOfWeights(), ((1, 8, 32),))
    assert [op.source for op in graph.ops] == ["aten.squeeze", "aten.unsqueeze", "aten.conv1d"] * 3
