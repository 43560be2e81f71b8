"""Control flow operators of PyTorch: branches and loops with functions as arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from sizeup.formats.torch.shape_env import to_expressions
from sizeup.graph import Body
from sizeup.ops.handlers import Handlers

Outcome = tuple[Any, tuple[Body, ...], list[torch.Tensor]]  # result, bodies, input tensors


class BodyRecorder(Protocol):
    """A recorder that can also record the bodies of branches and loops."""

    mode: FakeTensorMode | None

    def record_body(
        self, name: str, function: Callable[..., Any], operands: Sequence[Any], runs: int | None = 1
    ) -> tuple[Any, Body]:
        """Run a function; return its result and its graph."""


CONTROL = Handlers[Callable[[BodyRecorder, tuple[Any, ...]], Outcome]]()


@CONTROL("higher_order.cond")
def _cond(recorder: BodyRecorder, args: tuple[Any, ...]) -> Outcome:
    predicate, when_true, when_false, operands = args[:4]
    true_result, true_body = recorder.record_body("true", when_true, operands)
    false_result, false_body = recorder.record_body("false", when_false, operands)
    result = _merge_branches(recorder, true_result, false_result)
    inputs = [operand for operand in (predicate, *operands) if isinstance(operand, torch.Tensor)]
    return result, (true_body, false_body), inputs


def _merge_branches(recorder: BodyRecorder, true_result: Any, false_result: Any) -> Any:
    """Return the result of a conditional; sizes that differ between the branches become unknown."""
    leaves, tree = pytree.tree_flatten(true_result)
    others = pytree.tree_leaves(false_result)
    environment = None if recorder.mode is None else recorder.mode.shape_env
    if environment is None or len(leaves) != len(others):
        return true_result
    for index, (left, right) in enumerate(zip(leaves, others, strict=True)):
        are_tensors = isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)
        if (
            are_tensors
            and left.dim() == right.dim()
            and to_expressions(left.shape) != to_expressions(right.shape)
        ):
            sides = zip(left.shape, right.shape, strict=True)
            unknown = [
                a if to_expressions(a) == to_expressions(b) else environment.create_unbacked_symint()
                for a, b in sides
            ]
            leaves[index] = left.new_empty(unknown)
    return pytree.tree_unflatten(leaves, tree)


@CONTROL("higher_order.while_loop")
def _while_loop(recorder: BodyRecorder, args: tuple[Any, ...]) -> Outcome:
    condition, step, carried = args[:3]
    operands = (*carried, *(args[3] if len(args) > 3 else ()))
    _, test = recorder.record_body("condition", condition, operands, runs=None)
    result, body = recorder.record_body("body", step, operands, runs=None)
    return tuple(result), (test, body), list(operands)


@CONTROL("higher_order.scan")
def _scan(recorder: BodyRecorder, args: tuple[Any, ...]) -> Outcome:
    combine, initial, sequences = args[:3]
    extra = tuple(args[3]) if len(args) > 3 else ()
    steps = sequences[0].shape[0]
    slices = [tensor[0] for tensor in sequences]
    result, body = recorder.record_body("step", combine, (*initial, *slices, *extra), runs=steps)
    carried, outputs = result[: len(initial)], result[len(initial) :]
    stacked = [tensor.new_empty((steps, *tensor.shape)) for tensor in outputs]
    return [*carried, *stacked], (body,), [*initial, *sequences, *extra]


@CONTROL("higher_order.map_impl")
def _map(recorder: BodyRecorder, args: tuple[Any, ...]) -> Outcome:
    function, sequences = args[:2]
    extra = tuple(args[2]) if len(args) > 2 else ()
    steps = sequences[0].shape[0]
    result, body = recorder.record_body(
        "step", function, (*[tensor[0] for tensor in sequences], *extra), runs=steps
    )
    flat, tree = pytree.tree_flatten(result)
    stacked = [tensor.new_empty((steps, *tensor.shape)) for tensor in flat]
    return pytree.tree_unflatten(stacked, tree), (body,), [*sequences, *extra]


# Operators that only change how a function runs: index of the function, and of its first argument.
WRAPPERS: dict[str, tuple[int, int]] = {
    "higher_order.wrap_with_set_grad_enabled": (1, 2),
    "higher_order.wrap_with_autocast": (4, 5),
    "higher_order.invoke_subgraph": (0, 2),
    "higher_order.tag_activation_checkpoint": (0, 1),
}


def run_wrapped(source: str, args: tuple[Any, ...]) -> Any:
    """Return the result of a wrapper operator by running its function directly."""
    function_index, first_argument = WRAPPERS[source]
    is_autocast = source == "higher_order.wrap_with_autocast"
    device, dtype, enabled, cached = args[:4] if is_autocast else (None,) * 4
    with torch.autocast(device, dtype, enabled, cached) if is_autocast else nullcontext():
        return args[function_index](*args[first_argument:])
