"""Tensor liveness: models with unusual references, compared with the allocator."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sizeup
from sizeup.graph import Graph
from sizeup.memory import buffer_liveness, usage
from torch_allocator import allocated_peak

N = 1000  # elements of an input: 4,000 bytes
SCALARS = 64  # bytes: torch creates tensors for plain numbers


class Keeping(nn.Module):
    """Keeps tensors in a list and as attributes, and releases them half way."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        held = []
        for _ in range(4):
            x = x * 2
            held.append(x)
        self.kept = x + 1
        held.clear()
        x = x * 3
        x = x * 4
        self.kept = None
        for _ in range(3):
            x = torch.cat([x, x])
        return x


class Residual(nn.Module):
    """A local variable outlives its last use by an operator."""

    def forward(self, x: Tensor) -> Tensor:
        identity = x + 1
        y = identity * 2
        y = torch.cat([y, y])
        return torch.cat([y, y])


class Deleting(nn.Module):
    """The same, but the variable is deleted in time."""

    def forward(self, x: Tensor) -> Tensor:
        identity = x + 1
        y = identity * 2
        del identity
        y = torch.cat([y, y])
        return torch.cat([y, y])


class OverAView(nn.Module):
    """Writes into a slice of a tensor, and reads all of it."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        y[:500].add_(1)
        y.relu_().mul_(3)
        return y + 1


class OutlivedByAView(nn.Module):
    """A small view keeps all of a tensor alive."""

    def forward(self, x: Tensor) -> Tensor:
        few = torch.cat([x, x, x])[:10]
        y = x + 1
        y = torch.cat([y, y])
        return torch.cat([y, few])


class Expanding(nn.Module):
    """An expanded view with more elements than its storage."""

    def forward(self, x: Tensor) -> Tensor:
        return (x * 2).expand(50, N).sum(0)


class Unchanged(nn.Module):
    """Returns its input."""

    def forward(self, x: Tensor) -> Tensor:
        x + 1
        return x


class Named(nn.Module):
    """Returns a dictionary; another tensor is freed."""

    def forward(self, x: Tensor) -> dict[str, Any]:
        a = x + 1
        b = a * 2
        unused = torch.cat([a, b])
        return {"a": a, "more": [b, unused.sum()]}


class Repeating(nn.Module):
    """Calls one module repeatedly."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.ReLU(), nn.ReLU(inplace=True), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(5):
            x = self.body(x) + x
        return x


class Dropping(nn.Module):
    """Inactive dropout returns its input."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        kept = x + 1
        y = self.dropout(kept)
        return torch.cat([y * 2, kept])


class Splitting(nn.Module):
    """All chunks share a storage, which is freed with the last one."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = (x * 2).chunk(2)
        a = a + 1
        y = torch.cat([a, x, x])
        return torch.cat([y, b * 2])


class Destination(nn.Module):
    """Writes into a preallocated tensor."""

    def forward(self, x: Tensor) -> Tensor:
        result = torch.empty(0)
        torch.mul(x, 2, out=result)
        return result + 1


class Asking(nn.Module):
    """Reads a value, so that it is run with real data."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(6):
            x = torch.cat([x * 2, x])[: x.numel()] if float(x.sum()) < 0 else x + 1
        return x


MODELS = [
    Keeping,
    Residual,
    Deleting,
    OverAView,
    OutlivedByAView,
    Expanding,
    Unchanged,
    Named,
    Repeating,
    Dropping,
    Splitting,
    Destination,
    Asking,
]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized:UserWarning")
@pytest.mark.parametrize("make", MODELS)
def test_odd_holders_hold_what_the_allocator_held(make: Callable[[], nn.Module]) -> None:
    module, x = make().eval(), torch.ones(N)
    usage = sizeup.analyze(module, inputs=(x,)).memory.usage
    assert usage.peak_bytes == pytest.approx(allocated_peak(module, x), abs=SCALARS)


def test_what_is_written_in_place_is_one_buffer_under_its_first_name() -> None:
    usage = sizeup.analyze(OverAView(), inputs=((N,),)).memory.usage
    assert [(each.name, each.bytes) for each in usage.peak_tensors] == [
        ("x", 4000),
        ("mul", 4000),
        ("add_1", 4000),
    ]
    assert usage.live_bytes.tolist() == [8000] * 5 + [12000]


def test_a_local_variable_is_held_until_it_is_deleted() -> None:
    peaks = [sizeup.analyze(make(), inputs=((N,),)).memory.usage.peak_bytes for make in (Residual, Deleting)]
    assert peaks == [4000 * (1 + 1 + 2 + 4), 4000 * (1 + 2 + 4)]


def test_the_caller_holds_what_it_gave_to_the_end() -> None:
    module = nn.Sequential(nn.Tanh(), nn.Tanh(), nn.Tanh())
    usage = sizeup.analyze(module, inputs=((N,),)).memory.usage
    assert usage.live_bytes.tolist() == [8000, 12000, 12000]
    assert usage.peak_bytes == allocated_peak(module, torch.ones(N))


def test_a_run_with_numbers_lets_activations_die() -> None:
    alive: list[bool] = []

    class Watching(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x + 1
            watched = weakref.ref(y)
            y = y * 2 if float(y.sum()) > 0 else y
            alive.append(watched() is not None)
            return y

    report = sizeup.analyze(Watching(), inputs=(torch.ones(N),))
    assert "real data" in report.notes[0]
    assert alive == [False]


def test_a_tensor_that_only_torch_holds_keeps_its_name() -> None:
    class Handing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            holder = torch.zeros(N, requires_grad=True)
            holder.grad = x * 2  # the Python object is freed, torch keeps the tensor
            for _ in range(50):
                torch.ones(N)
            assert holder.grad is not None
            return holder.grad + 1

    graph = sizeup.load(Handing(), inputs=((N,),))
    producers = {identity: op for op in graph.ops for identity in op.outputs}
    assert producers[graph.ops[-1].inputs[0]].kind == "mul"


# Of the last program, the operators that produced the inputs of each operator; -1 for program inputs.
# A global: the attributes of a module are restored after it was recorded.
EDGES: list[list[int]] = []


class Program(nn.Module):
    """A random program that creates and frees tensors, and records the inputs of each operator."""

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__()
        self.seed, self.steps = seed, steps

    def forward(self, x: Tensor) -> Tensor:
        choose = random.Random(self.seed)
        expected: list[list[int]] = []
        pool: list[tuple[Tensor, int]] = [(x, -1)]
        for step in range(self.steps):
            a, made_a = choose.choice(pool)
            b, made_b = choose.choice(pool)
            choice = choose.random()
            if choice < 0.3:
                result, read = a * 2, [made_a]
            elif choice < 0.5 and a.numel() + b.numel() < 20 * N:
                result, read = torch.cat([a, b]), [made_a, made_b]
            elif choice < 0.65:
                result, read = a.view(10, -1).view(-1), [made_a]
                expected.append(read)
                read = [len(expected) - 1]
            elif choice < 0.8 and a is not x:
                pool = [entry for entry in pool if entry[0] is not a]
                result, read = a.add_(1), [made_a]
            else:
                result, read = torch.zeros(10 * choose.randrange(1, N)), []
            expected.append(read)
            pool.append((result, len(expected) - 1))
            del a, b, result
            while len(pool) > 6 or (len(pool) > 1 and choose.random() < 0.4):
                del pool[choose.randrange(1, len(pool))]
            if step % 97 == 0:
                gc.collect()
        EDGES[:] = expected
        return pool[-1][0]


def _edges(graph: Graph) -> list[list[int]]:
    maker = {identity: index for index, op in enumerate(graph.ops) for identity in op.outputs}
    return [[maker.get(identity, -1) for identity in op.inputs] for op in graph.ops]


@pytest.fixture
def quick_collection() -> Iterator[None]:
    """Limit collections to new objects: scanning all of torch takes 0.5 s."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("seed", range(12))
def test_ids_of_dead_tensors_are_never_taken_for_living_ones(seed: int, quick_collection: None) -> None:
    module, x = Program(seed, 150), torch.ones(N)
    graph = sizeup.load(module, inputs=(x,))
    assert _edges(graph) == EDGES
    assert usage(graph, use_recorded_run=True).peak_bytes == pytest.approx(
        allocated_peak(module, x), abs=SCALARS
    )


def test_thousands_of_short_lived_tensors_keep_their_order(quick_collection: None) -> None:
    module = Program(99, 1500)
    graph = sizeup.load(module, inputs=((N,),))
    assert _edges(graph) == EDGES


class InPlace(nn.Module):
    """Small and large tensors, in-place ops, and a local variable that a program can free early."""

    def forward(self, x: Tensor) -> Tensor:
        identity = torch.cat([x, x])
        y = torch.relu_(identity + 1).mul_(2)
        z = y[:N].clone()
        z = torch.cat([z, x, x, x])
        return torch.cat([z, z])


def test_a_program_lets_go_after_the_last_use() -> None:
    module, x = InPlace().eval(), torch.ones(N)
    program = torch.export.export(module, (x,))
    peak_bytes = sizeup.analyze(program).memory.usage.peak_bytes
    assert peak_bytes == allocated_peak(program.module(), x)
    eager = sizeup.analyze(module, inputs=(x,)).memory.usage.peak_bytes
    assert eager == allocated_peak(module, x)
    assert peak_bytes < eager


def test_a_result_that_no_one_uses_is_gone_at_once_in_a_program() -> None:
    class Ignoring(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            values, _ = torch.cat([x, x]).view(2, N).max(0)
            y = values * 2
            return torch.cat([y] * 6)

    program = torch.export.export(Ignoring(), (torch.ones(N),))
    peak_bytes = sizeup.analyze(program).memory.usage.peak_bytes
    assert peak_bytes == allocated_peak(program.module(), torch.ones(N))


def test_other_orders_and_plans_know_nothing_of_a_run() -> None:
    graph = sizeup.load(Residual(), inputs=((N,),))
    without = replace(graph, recorded_run=None)
    assert graph.recorded_run is not None
    assert buffer_liveness(graph).live_bytes().tolist() == buffer_liveness(without).live_bytes().tolist()
    assert (
        usage(graph).peak_bytes
        == usage(without).peak_bytes
        == usage(without, use_recorded_run=True).peak_bytes
    )
    assert usage(graph, use_recorded_run=True).peak_bytes > usage(graph).peak_bytes
    assert sizeup.plan(graph).plan_bytes == sizeup.plan(without).plan_bytes


def test_what_runs_elsewhere_has_no_workspace_of_this_processor() -> None:
    graph = sizeup.load(nn.Conv2d(64, 64, 3).eval(), inputs=((1, 64, 28, 28),))
    assert graph.recorded_run is not None
    there = replace(graph, recorded_run=replace(graph.recorded_run, device="cuda"))
    assert usage(there, use_recorded_run=True).peak_bytes == 64 * (28 * 28 + 26 * 26) * 4
    assert usage(graph, use_recorded_run=True).peak_bytes > usage(there, use_recorded_run=True).peak_bytes


def test_the_recorder_holds_nothing_when_it_is_done() -> None:
    module, x = nn.Linear(10, 10), torch.ones(1, 10)
    gc.collect()
    gc.disable()
    try:
        graph = sizeup.load(module, inputs=(x,))
        watched = weakref.ref(module.weight), weakref.ref(x)
        del module, x, graph
        assert [each() for each in watched] == [None, None]
    finally:
        gc.enable()


class InAThread(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda: result.append(self.layer(x)))
        thread.start()
        thread.join()
        return result[0] + 1


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # raised by torch for fake tensors
def test_what_runs_in_another_thread_is_unknown_and_not_free() -> None:
    report = sizeup.analyze(InAThread(), [(4, 8)])
    assert [each.op_kind for each in report.unknown_ops] == ["unseen"]
    assert report.coverage < 1
    assert any("another thread" in note for note in report.notes)


class NewObject(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x * 2
        return torch.Tensor._make_subclass(torch.Tensor, result) + 1


class NewBytes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x + 1, x * 2
        first.data = second
        return first * 3


def test_a_new_object_over_known_bytes_is_the_same_value() -> None:
    graph = sizeup.load(NewObject(), [(4, 8)])
    assert [graph.tensors[identity].name for identity in graph.ops[-1].inputs] == ["mul"]
    assert all(tensor.data is None for tensor in graph.tensors)


def test_an_object_that_was_given_other_bytes_is_not_the_old_value() -> None:
    graph = sizeup.load(NewBytes(), [(4, 8)])
    assert [graph.tensors[identity].name for identity in graph.ops[-1].inputs] != ["add"]


class ToAnotherLibrary(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        handed = torch.utils.dlpack.to_dlpack(x * 2)  # type: ignore[attr-defined]
        return torch.utils.dlpack.from_dlpack(handed) + 1


def test_tensors_without_content_are_not_handed_to_other_libraries() -> None:
    graph = sizeup.load(ToAnotherLibrary(), [(2, 2)])
    assert [op.kind for op in graph.ops] == ["mul", "add"]
    assert "DLPack" in " ".join(graph.notes)
    assert torch.utils.dlpack.from_dlpack(torch.ones(2)).sum() == 2  # restored
