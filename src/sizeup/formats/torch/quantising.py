"""A module run with numbers as narrower types would hold them, operator by operator.

The operators of a run are found in the recorded graph by their names, which follow from the order in which
they run: the graph's `conv2d_3` is the fourth convolution that the module calls, in a module or outside one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from sizeup.errors import LoadError, RunFailed, SizeupError
from sizeup.formats.rounding import Array, Observed, Rounding, Roundings, Seen, merged, sample_step
from sizeup.formats.torch import refuse_untrusted
from sizeup.formats.torch.eager import home_of
from sizeup.formats.torch.record import untouched
from sizeup.formats.torch.translate import Operator, normalise, operator_of, taken_apart, tensor_arguments
from sizeup.graph import ABSENT, Graph

_CHUNK = 1 << 24
# Each row of their weights, along the first axis, makes an output channel.
_ROWS = ("conv", "deform_conv", "lstm", "gru", "rnn", "embedding")
_FUSED_PRODUCTS = ("aten._native_multi_head_attention", "aten._transformer_encoder_layer_fwd")


class _Call(NamedTuple):
    """An operator that ran, under the name that it has in the graph."""

    name: str
    operator: Operator
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any


# They may change the flat arguments of the operator of a name, and what a call made.
_Before: TypeAlias = Callable[[str, list[Any]], list[Any]]
_After: TypeAlias = Callable[[_Call], Any]


def module_of(source: Any) -> torch.nn.Module:
    """The module that a source stands for, with weights of its own."""
    if isinstance(source, torch.nn.Module):
        return source
    if isinstance(source, torch.export.ExportedProgram):
        return source.module()
    refuse_untrusted(source, trusted=False)  # whoever trusts a file gives its program
    from sizeup.formats.torch.sources import build

    built = build(str(source), {})
    if built.mode is not None:
        raise LoadError(
            f"{source}: it comes without trained weights, so its accuracy cannot be measured;"
            " give the module, or name code that loads them as package.module:factory"
        )
    return built.module


def fixed_batch(source: Any) -> int | None:
    """How many samples a program takes at a time; None where any number, as in all code."""
    if not isinstance(source, torch.export.ExportedProgram):
        return None
    shapes = [
        node.meta["val"].shape
        for node in source.graph.nodes
        if node.name in source.graph_signature.user_inputs[:1] and isinstance(node.meta["val"], torch.Tensor)
    ]
    size = shapes[0][0] if shapes and shapes[0] else None
    return size if type(size) is int else None


class TorchRunner:
    """Runs a module on batches of numpy arrays; `graph` is what it was recorded as."""

    title = "PyTorch"

    def __init__(
        self,
        source: Any,
        graph: Graph,
        probe: Sequence[Array],
        names: Sequence[str] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.graph, self._probe = graph, probe
        self.batch = fixed_batch(source)
        self._module = module_of(source)
        self._names, self._kwargs = tuple(names), dict(kwargs or {})
        self._ops = {op.name: index for index, op in enumerate(graph.ops)}
        self._device, self._dtype = home_of(self._module)
        # Of every operator in the graph: its inputs' places among the flat arguments of the call.
        self._leaves: dict[int, dict[int, int]] = {}

    def fingerprint(self) -> str:
        """A digest of all that decides what it computes: every operator, its settings, the weights.

        The probe, one sample, shows which operators these are.
        """
        digest = hashlib.sha256()

        def before(name: str, leaves: list[Any]) -> list[Any]:
            shown = [
                f"{tuple(each.shape)}{each.dtype}" if isinstance(each, torch.Tensor) else repr(each)
                for each in leaves
            ]
            digest.update(f"{name}({', '.join(shown)})\n".encode())
            return leaves

        self._call(self._probe, _Mode(before))
        for label, tensor in (*self._module.named_parameters(), *self._module.named_buffers()):
            digest.update(f"{label} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
            flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            for start in range(0, len(flat), _CHUNK):
                digest.update(flat[start : start + _CHUNK].numpy().tobytes())
        return digest.hexdigest()

    def channel_axis(self, op: int, identity: int) -> int | None:
        """Along which axis of a weight each output channel has its own numbers; None where none does."""
        found = self.graph.ops[op]
        shape = self.graph.tensors[identity].shape or ()
        if found.kind in _ROWS or found.source in _FUSED_PRODUCTS:
            return 0
        if found.kind == "conv_transpose":
            return 1
        if found.kind == "matmul" and identity in found.inputs[1:2]:
            return 0 if found.source == "aten.linear" else len(shape) - 1
        return None

    def observe(self, batches: Sequence[Sequence[Array]], wanted: Sequence[int]) -> Observed:
        """Ranges of the wanted values over the batches, and the constants that operators read."""
        eye = _Eye(self.graph, self._ops, frozenset(wanted), len(batches))
        for batch in batches:
            self._call(batch, _Mode(after=eye.after), eye.saw_inputs)
        self._leaves = eye.leaves
        return Observed(eye.values, eye.constants)

    def outputs(self, batches: Sequence[Sequence[Array]], roundings: Roundings) -> list[list[Array]]:
        """What the module makes of each batch with its numbers rounded: its tensors in their order."""
        hand = _Hand(self.graph, self._ops, self._leaves, roundings)
        found = []
        for batch in batches:
            result = self._call(batch, _Mode(hand.before, hand.after), hand.round_inputs)
            found.append([_numpy(each) for each in _tensors_of(result)])
        return found

    def close(self) -> None:
        """Nothing is kept open."""

    def _call(
        self,
        batch: Sequence[Array],
        mode: _Mode,
        enter: Callable[[list[torch.Tensor]], list[torch.Tensor]] = lambda tensors: tensors,
    ) -> Any:
        tensors = [self._tensor(each) for each in batch]
        with _quietly(self._module), torch.inference_mode():
            tensors = enter(tensors)
            args = () if self._names else tuple(tensors)
            named = dict(zip(self._names, tensors, strict=True)) if self._names else {}
            try:
                with mode:
                    return self._module(*args, **named, **self._kwargs)
            except SizeupError:
                raise
            except Exception as error:
                raise RunFailed(
                    f"PyTorch does not run it on the data: {type(error).__name__}: {error}"
                ) from error

    def _tensor(self, array: Array) -> torch.Tensor:
        made = torch.from_numpy(np.array(array)).to(self._device)
        return made.to(self._dtype) if made.is_floating_point() else made


@contextmanager
def _quietly(module: torch.nn.Module) -> Iterator[None]:
    """As for use, not for training, and left as it was."""
    trained = [each for each in module.modules() if each.training]
    try:
        for each in trained:
            each.training = False
        with untouched(module.modules()), torch.compiler.set_stance("force_eager"):
            yield
    finally:
        for each in trained:
            each.training = True


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class hook has no types
    """Calls visitors around every operator, which has the name that the recorder gives it."""

    supports_higher_order_operators = True

    def __init__(self, before: _Before | None = None, after: _After | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # nor has its constructor
        self._before, self._after = before, after
        self._seen: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        operator = operator_of(func)
        parts = taken_apart(self, func, operator, args, kwargs)
        if parts is not NotImplemented:
            return parts
        if operator.skipped:
            return func(*args, **kwargs)
        count = self._seen[operator.name]
        name = f"{operator.name}_{count}" if count else operator.name
        if self._before is not None:
            leaves, spec = pytree.tree_flatten((args, kwargs))
            args, kwargs = pytree.tree_unflatten(self._before(name, leaves), spec)
        result = func(*args, **kwargs)
        if not _is_recorded(operator, args, kwargs, result):
            return result
        self._seen[operator.name] += 1
        call = _Call(name, operator, args, kwargs, result)
        return result if self._after is None else self._after(call)


def _is_recorded(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> bool:
    """Whether the recorder writes such a call down: not where it hands back what it was given."""
    outputs = _tensors_of(result)
    if not outputs:
        return False
    return operator.mutates or not any(
        outputs[0] is each for each in tensor_arguments(operator, args, kwargs)
    )


class _Eye:
    """Takes down ranges, constants, and where each operator's inputs stand in its call."""

    def __init__(self, graph: Graph, ops: Mapping[str, int], wanted: frozenset[int], batches: int) -> None:
        self._graph, self._ops, self._wanted, self._batches = graph, ops, wanted, batches
        self.values: dict[int, Seen] = {}
        self.constants: dict[int, Array] = {}
        self.leaves: dict[int, dict[int, int]] = {}

    def saw_inputs(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        for identity, tensor in zip(self._graph.inputs, tensors, strict=True):
            self._see(identity, tensor)
        return tensors

    def after(self, call: _Call) -> Any:
        index = self._ops.get(call.name)
        if index is None:
            return call.result
        op, outputs = self._graph.ops[index], _tensors_of(call.result)
        if op.source != call.operator.source:
            raise RunFailed(f"{call.name} is {call.operator.source} on this data, {op.source} in the graph")
        if index not in self.leaves:
            self._place(index, call, outputs)
        # Fused attention makes its weights on tensors without content only.
        for identity, tensor in zip(op.outputs, outputs, strict=False):
            self._see(identity, tensor)
        return call.result

    def _place(self, index: int, call: _Call, outputs: list[torch.Tensor]) -> None:
        _, inputs, _ = normalise(call.operator, call.args, call.kwargs, outputs)
        leaves = pytree.tree_leaves((call.args, call.kwargs))
        places = {id(each): place for place, each in enumerate(leaves) if isinstance(each, torch.Tensor)}
        self.leaves[index] = {}
        for identity, tensor in zip(self._graph.ops[index].inputs, inputs, strict=True):
            if identity == ABSENT or id(tensor) not in places:
                continue
            self.leaves[index][identity] = places[id(tensor)]
            if self._graph.tensors[identity].data is not None and tensor.is_floating_point():
                self.constants[identity] = _numpy(tensor)

    def _see(self, identity: int, tensor: torch.Tensor) -> None:
        if identity not in self._wanted or not tensor.is_floating_point() or not tensor.numel():
            return
        flat = tensor.detach().reshape(-1)
        low, high = torch.aminmax(flat)
        sample = _numpy(flat[:: sample_step(len(flat), self._batches)])
        seen = Seen(float(low), float(high), sample)
        self.values[identity] = merged(self.values.get(identity), seen)


class _Hand:
    """Puts rounded numbers in the place of those that operators read and make."""

    def __init__(
        self,
        graph: Graph,
        ops: Mapping[str, int],
        leaves: Mapping[int, Mapping[int, int]],
        roundings: Roundings,
    ) -> None:
        self._graph, self._ops, self._made = graph, ops, roundings.made
        self._before: dict[int, dict[int, Rounding | torch.Tensor]] = {}
        for (op, identity), change in (*roundings.read.items(), *roundings.constants.items()):
            place = leaves.get(op, {}).get(identity)
            if place is None:
                raise RunFailed(f"{graph.ops[op].name} did not run on the calibration data as in the graph")
            made = change if isinstance(change, Rounding) else torch.from_numpy(change)
            self._before.setdefault(op, {})[place] = made

    def round_inputs(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        found = zip(self._graph.inputs, tensors, strict=True)
        return [
            rounded_tensor(tensor, self._made[identity]) if identity in self._made else tensor
            for identity, tensor in found
        ]

    def before(self, name: str, leaves: list[Any]) -> list[Any]:
        changes = self._before.get(self._ops.get(name, -1))
        for place, change in (changes or {}).items():
            old = leaves[place]
            if isinstance(change, Rounding):
                leaves[place] = rounded_tensor(old, change)
            else:
                leaves[place] = change.to(old.device, old.dtype)
        return leaves

    def after(self, call: _Call) -> Any:
        index = self._ops.get(call.name)
        if index is None or not any(each in self._made for each in self._graph.ops[index].outputs):
            return call.result
        leaves, spec = pytree.tree_flatten(call.result)
        places = [place for place, each in enumerate(leaves) if isinstance(each, torch.Tensor)]
        for place, identity in zip(places, self._graph.ops[index].outputs, strict=False):
            if identity in self._made:
                made = rounded_tensor(leaves[place], self._made[identity])
                # Whoever holds what was changed in place must see the rounded numbers too.
                leaves[place] = leaves[place].copy_(made) if call.operator.mutates else made
        return pytree.tree_unflatten(leaves, spec)


def rounded_tensor(tensor: torch.Tensor, rounding: Rounding) -> torch.Tensor:
    """The same as `rounding.rounded`, for torch."""
    if not tensor.is_floating_point():
        return tensor
    if rounding.dtype.family == "float":
        return tensor.to(getattr(torch, rounding.dtype.name)).to(tensor.dtype)
    scale = torch.tensor(rounding.scale, dtype=torch.float32, device=tensor.device)
    stored = torch.round(tensor.float() / scale).add_(rounding.zero_point)
    stored = stored.clamp_(rounding.low, rounding.high)
    return stored.sub_(rounding.zero_point).mul_(scale).to(tensor.dtype)


def _tensors_of(result: Any) -> list[torch.Tensor]:
    found = [each for each in pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]
    if not found and hasattr(result, "__dict__"):
        found = [each for each in pytree.tree_leaves(vars(result)) if isinstance(each, torch.Tensor)]
    return found


def _numpy(tensor: torch.Tensor) -> Array:
    plain = tensor.detach().cpu()
    small = plain.is_floating_point() and plain.dtype is not torch.float64
    return np.array((plain.float() if small else plain).numpy())
