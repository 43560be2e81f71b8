"""Control flow in PyTorch: branches and loops that arrive as one operator with functions inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from sizeup.formats.torch.symbolic import plain
from sizeup.graph import Body

Outcome = tuple[Any, tuple[Body, ...], list[torch.Tensor]]  # result, bodies, tensors that the operator takes


class BodyRecorder(Protocol):
    """A recorder of the operators around a branch or loop, which records the functions inside, too."""

    mode: FakeTensorMode | None

    def record_body(
        self, name: str, function: Callable[..., Any], operands: Sequence[Any], runs: int | None = 1
    ) -> tuple[Any, Body]:
        """The result of a function, and the graph of what it ran."""


def _cond(recorder: BodyRecorder, args: tuple[Any, ...]) -> Outcome:
    predicate, when_true, when_false, operands = args[:4]
    one, true_body = recorder.record_body("true", when_true, operands)
    other, false_body = recorder.record_body("false", when_false, operands)
    result = _either(recorder, one, other)
    taken = [each for each in (predicate, *operands) if isinstance(each, torch.Tensor)]
    return result, (true_body, false_body), taken


def _either(recorder: BodyRecorder, one: Any, other: Any) -> Any:
    """What a branch returns, whichever is taken: a size in which they differ is unknown."""
    leaves, tree = pytree.tree_flatten(one)
    others = pytree.tree_leaves(other)
    environment = None if recorder.mode is None else recorder.mode.shape_env
    if environment is None or len(leaves) != len(others):
        return one
    for place, (left, right) in enumerate(zip(leaves, others, strict=True)):
        are_tensors = isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)
        if are_tensors and left.dim() == right.dim() and plain(left.shape) != plain(right.shape):
            sides = zip(left.shape, right.shape, strict=True)
            unknown = [a if plain(a) == plain(b) else environment.create_unbacked_symint() for a, b in sides]
            leaves[place] = left.new_empty(unknown)
    return pytree.tree_unflatten(leaves, tree)


def _while_loop(recorder: BodyRecorder, args: tuple[Any, ...]) -> Outcome:
    condition, step, carried = args[:3]
    operands = (*carried, *(args[3] if len(args) > 3 else ()))
    _, test = recorder.record_body("condition", condition, operands, runs=None)
    result, body = recorder.record_body("body", step, operands, runs=None)
    return tuple(result), (test, body), list(operands)


def _scan(recorder: BodyRecorder, args: tuple[Any, ...]) -> Outcome:
    combine, initial, sequences = args[:3]
    further = tuple(args[3]) if len(args) > 3 else ()
    steps = sequences[0].shape[0]
    slices = [each[0] for each in sequences]
    result, body = recorder.record_body("step", combine, (*initial, *slices, *further), runs=steps)
    carried, made = result[: len(initial)], result[len(initial) :]
    stacked = [each.new_empty((steps, *each.shape)) for each in made]
    return [*carried, *stacked], (body,), [*initial, *sequences, *further]


def _map(recorder: BodyRecorder, args: tuple[Any, ...]) -> Outcome:
    function, sequences = args[:2]
    further = tuple(args[2]) if len(args) > 2 else ()
    steps = sequences[0].shape[0]
    result, body = recorder.record_body(
        "step", function, (*[each[0] for each in sequences], *further), runs=steps
    )
    flat, tree = pytree.tree_flatten(result)
    stacked = [each.new_empty((steps, *each.shape)) for each in flat]
    return pytree.tree_unflatten(stacked, tree), (body,), [*sequences, *further]


CONTROL: dict[str, Callable[[BodyRecorder, tuple[Any, ...]], Outcome]] = {
    "higher_order.cond": _cond,
    "higher_order.while_loop": _while_loop,
    "higher_order.scan": _scan,
    "higher_order.map_impl": _map,
}


# Where the function stands among the arguments of an operator that only changes how it is run, and from
# where on its own arguments follow.
WRAPPERS: dict[str, tuple[int, int]] = {
    "higher_order.wrap_with_set_grad_enabled": (1, 2),
    "higher_order.wrap_with_autocast": (4, 5),
    "higher_order.invoke_subgraph": (0, 2),
    "higher_order.tag_activation_checkpoint": (0, 1),
}


def unwrapped_call(source: str, args: tuple[Any, ...]) -> Any:
    """What such an operator returns, its function run in place."""
    place, first = WRAPPERS[source]
    autocast = source == "higher_order.wrap_with_autocast"
    device, dtype, enabled, cached = args[:4] if autocast else (None,) * 4
    with torch.autocast(device, dtype, enabled, cached) if autocast else nullcontext():
        return args[place](*args[first:])
