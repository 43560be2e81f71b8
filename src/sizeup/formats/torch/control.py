"""Control flow in PyTorch: branches and loops that arrive as one operator with functions inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from sizeup.formats.torch.symbolic import plain
from sizeup.graph import ABSENT, Body, GraphBuilder

if TYPE_CHECKING:
    from sizeup.formats.torch.record import Recorder

Outcome = tuple[Any, tuple[Body, ...], list[torch.Tensor]]  # result, bodies, tensors that the operator takes


def _cond(recorder: Recorder, args: tuple[Any, ...]) -> Outcome:
    predicate, when_true, when_false, operands = args[:4]
    one, true_body = _body(recorder, "true", when_true, operands)
    other, false_body = _body(recorder, "false", when_false, operands)
    result = _either(recorder, one, other)
    taken = [each for each in (predicate, *operands) if isinstance(each, torch.Tensor)]
    return result, (true_body, false_body), taken


def _either(recorder: Recorder, one: Any, other: Any) -> Any:
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


def _while_loop(recorder: Recorder, args: tuple[Any, ...]) -> Outcome:
    condition, step, carried = args[:3]
    operands = (*carried, *(args[3] if len(args) > 3 else ()))
    _, test = _body(recorder, "condition", condition, operands, runs=None)
    result, body = _body(recorder, "body", step, operands, runs=None)
    return tuple(result), (test, body), list(operands)


def _scan(recorder: Recorder, args: tuple[Any, ...]) -> Outcome:
    combine, initial, sequences = args[:3]
    further = tuple(args[3]) if len(args) > 3 else ()
    steps = sequences[0].shape[0]
    slices = [each[0] for each in sequences]
    result, body = _body(recorder, "step", combine, (*initial, *slices, *further), runs=steps)
    carried, made = result[: len(initial)], result[len(initial) :]
    stacked = [each.new_empty((steps, *each.shape)) for each in made]
    return [*carried, *stacked], (body,), [*initial, *sequences, *further]


def _map(recorder: Recorder, args: tuple[Any, ...]) -> Outcome:
    function, sequences = args[:2]
    further = tuple(args[2]) if len(args) > 2 else ()
    steps = sequences[0].shape[0]
    result, body = _body(recorder, "step", function, (*[each[0] for each in sequences], *further), runs=steps)
    flat, tree = pytree.tree_flatten(result)
    stacked = [each.new_empty((steps, *each.shape)) for each in flat]
    return pytree.tree_unflatten(stacked, tree), (body,), [*sequences, *further]


CONTROL: dict[str, Callable[[Recorder, tuple[Any, ...]], Outcome]] = {
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


def _body(
    outer: Recorder, name: str, function: Callable[..., Any], operands: Sequence[Any], runs: int | None = 1
) -> tuple[Any, Body]:
    """Run one function with a recorder of its own; constants of the outer graph stay the same constants."""
    inner = type(outer)(GraphBuilder(name, outer.builder.format), outer.mode)
    inner.scope = outer.scope
    for place, operand in enumerate(operands):
        if not isinstance(operand, torch.Tensor):
            continue
        known = outer.builder.tensors[outer.identity(operand)]
        identity = inner.builder.tensor(
            known.name or f"operand_{place}", known.shape, known.dtype, known.data
        )
        if known.data is None or known.data.role == "derived":
            inner.builder.inputs.append(identity)
        inner.name_tensor(operand, identity)
    with inner:
        result = function(*operands)
    tensors = [each for each in pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]
    identities = dict.fromkeys(inner.identity(each) for each in tensors)
    inner.builder.outputs.extend(each for each in identities if each != ABSENT)
    return result, Body(name, inner.builder.freeze(), plain(runs))
