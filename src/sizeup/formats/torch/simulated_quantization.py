"""Run a module with simulated quantization, op by op.

Ops of a run are matched to the recorded graph by name, and names follow execution order: `conv2d_3` is the
fourth convolution that the model calls.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from sizeup.errors import LoadError, RunFailed, SizeupError
from sizeup.formats.simulated_rounding import (
    Array,
    CalibrationStatistics,
    Rounding,
    Roundings,
    TensorStatistics,
    merge_statistics,
    sample_stride,
)
from sizeup.formats.torch import require_trust
from sizeup.formats.torch.eager import device_and_dtype
from sizeup.formats.torch.failures import error_summary
from sizeup.formats.torch.isolation import preserve_state
from sizeup.formats.torch.modes import run_mode
from sizeup.formats.torch.operators import Operator, decompose, lower_call, operator_of, tensor_arguments
from sizeup.graph import ABSENT, Graph
from sizeup.ops import has_trait

_CHUNK = 1 << 24
_FUSED_PRODUCTS = ("aten._native_multi_head_attention", "aten._transformer_encoder_layer_fwd")


class _Call(NamedTuple):
    """An operator call, with its name in the graph."""

    name: str
    operator: Operator
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any


# Callbacks that may replace the flat arguments of an op, and the result of a call.
_Before: TypeAlias = Callable[[str, list[Any]], list[Any]]
_After: TypeAlias = Callable[[_Call], Any]


def module_of(source: Any) -> torch.nn.Module:
    """Return the module of a source, with its trained weights."""
    if isinstance(source, torch.nn.Module):
        return source
    if isinstance(source, torch.export.ExportedProgram):
        return source.module()
    require_trust(source, trusted=False)  # a trusted file is passed as a program
    from sizeup.formats.torch.sources import build

    built = build(str(source), {})
    if built.mode is not None:
        raise LoadError(
            f"{source}: has no trained weights, so its accuracy cannot be measured;"
            " pass the module, or package.module:factory of code that loads the weights"
        )
    return built.module


def fixed_batch(source: Any) -> int | None:
    """Return the fixed batch size of a program; None if it is symbolic, or for modules."""
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
    """Runs a module on batches of numpy arrays; `graph` is its recorded graph."""

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
        self._device, self._dtype = device_and_dtype(self._module)
        # By op: position of each input tensor among the flat arguments of the call.
        self._leaves: dict[int, dict[int, int]] = {}

    def fingerprint(self) -> str:
        """Return a digest of the ops that run on the probe sample, their arguments, and the weights."""
        digest = hashlib.sha256()

        def before(name: str, leaves: list[Any]) -> list[Any]:
            descriptions = [
                f"{tuple(leaf.shape)}{leaf.dtype}" if isinstance(leaf, torch.Tensor) else repr(leaf)
                for leaf in leaves
            ]
            digest.update(f"{name}({', '.join(descriptions)})\n".encode())
            return leaves

        self._call(self._probe, _Mode(before))
        for label, tensor in (*self._module.named_parameters(), *self._module.named_buffers()):
            digest.update(f"{label} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
            flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            for start in range(0, len(flat), _CHUNK):
                digest.update(flat[start : start + _CHUNK].numpy().tobytes())
        return digest.hexdigest()

    def channel_axis(self, op: int, identity: int) -> int | None:
        """Return the output channel axis of a weight, or None."""
        graph_op = self.graph.ops[op]
        shape = self.graph.tensors[identity].shape or ()
        if has_trait(graph_op.kind, "weight_rows") or graph_op.source in _FUSED_PRODUCTS:
            return 0
        if graph_op.kind == "conv_transpose":
            return 1
        if graph_op.kind == "matmul" and identity in graph_op.inputs[1:2]:
            return 0 if graph_op.source == "aten.linear" else len(shape) - 1
        return None

    def observe(self, batches: Sequence[Sequence[Array]], tensor_ids: Sequence[int]) -> CalibrationStatistics:
        """Return the ranges of these tensors over the batches, and the constants that ops read."""
        observer = _RangeObserver(self.graph, self._ops, frozenset(tensor_ids), len(batches))
        for batch in batches:
            self._call(batch, _Mode(after=observer.after), observer.observe_inputs)
        self._leaves = observer.leaves
        return CalibrationStatistics(observer.values, observer.constants)

    def outputs(self, batches: Sequence[Sequence[Array]], roundings: Roundings) -> list[list[Array]]:
        """Return the output tensors for each batch, computed with rounded values."""
        rounder = _Rounder(self.graph, self._ops, self._leaves, roundings)
        outputs = []
        for batch in batches:
            result = self._call(batch, _Mode(rounder.before, rounder.after), rounder.round_inputs)
            outputs.append([_numpy(tensor) for tensor in _output_tensors(result)])
        return outputs

    def close(self) -> None:
        """Do nothing: no resources are open."""

    def _call(
        self,
        batch: Sequence[Array],
        mode: _Mode,
        enter: Callable[[list[torch.Tensor]], list[torch.Tensor]] = lambda tensors: tensors,
    ) -> Any:
        tensors = [self._tensor(array) for array in batch]
        with ExitStack() as stack:
            stack.enter_context(preserve_state(self._module, self._kwargs, values=True))
            stack.enter_context(run_mode(self._module))
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(torch.inference_mode())
            tensors = enter(tensors)
            args = () if self._names else tuple(tensors)
            named = dict(zip(self._names, tensors, strict=True)) if self._names else {}
            try:
                with mode:
                    return self._module(*args, **named, **self._kwargs)
            except SizeupError:
                raise
            except Exception as error:
                raise RunFailed(f"PyTorch failed on the data: {error_summary(error)}") from error

    def _tensor(self, array: Array) -> torch.Tensor:
        tensor = torch.from_numpy(np.array(array)).to(self._device)
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class hook has no types
    """Calls callbacks before and after every op, named as by the recorder."""

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
        parts = decompose(self, func, operator, args, kwargs)
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
    """Return whether the recorder records a call: not if it returns one of its inputs."""
    outputs = _output_tensors(result)
    if not outputs:
        return False
    return operator.mutates or not any(
        outputs[0] is tensor for tensor in tensor_arguments(operator, args, kwargs)
    )


class _RangeObserver:
    """Records ranges, constants, and the argument positions of each op's inputs."""

    def __init__(
        self, graph: Graph, ops: Mapping[str, int], tensor_ids: frozenset[int], batches: int
    ) -> None:
        self._graph, self._ops, self._tensor_ids, self._batches = graph, ops, tensor_ids, batches
        self.values: dict[int, TensorStatistics] = {}
        self.constants: dict[int, Array] = {}
        self.leaves: dict[int, dict[int, int]] = {}

    def observe_inputs(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        for identity, tensor in zip(self._graph.inputs, tensors, strict=True):
            self._observe(identity, tensor)
        return tensors

    def after(self, call: _Call) -> Any:
        index = self._ops.get(call.name)
        if index is None:
            return call.result
        op, outputs = self._graph.ops[index], _output_tensors(call.result)
        if op.source != call.operator.source:
            raise RunFailed(
                f"{call.name} is {call.operator.source} on this data but {op.source} in the graph"
            )
        if index not in self.leaves:
            self._index_inputs(index, call, outputs)
        # Fused attention returns its attention weights on fake tensors only.
        for identity, tensor in zip(op.outputs, outputs, strict=False):
            self._observe(identity, tensor)
        return call.result

    def _index_inputs(self, index: int, call: _Call, outputs: list[torch.Tensor]) -> None:
        _, inputs, _ = lower_call(call.operator, call.args, call.kwargs, outputs)
        leaves = pytree.tree_leaves((call.args, call.kwargs))
        positions = {
            id(leaf): position for position, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)
        }
        self.leaves[index] = {}
        for identity, tensor in zip(self._graph.ops[index].inputs, inputs, strict=True):
            if identity == ABSENT or id(tensor) not in positions:
                continue
            self.leaves[index][identity] = positions[id(tensor)]
            if self._graph.tensors[identity].data is not None and tensor.is_floating_point():
                self.constants[identity] = _numpy(tensor)

    def _observe(self, identity: int, tensor: torch.Tensor) -> None:
        if identity not in self._tensor_ids or not tensor.is_floating_point() or not tensor.numel():
            return
        flat = tensor.detach().reshape(-1)
        low, high = torch.aminmax(flat)
        sample = _numpy(flat[:: sample_stride(len(flat), self._batches)])
        seen = TensorStatistics(float(low), float(high), sample)
        self.values[identity] = merge_statistics(self.values.get(identity), seen)


class _Rounder:
    """Replaces inputs, constants and outputs of ops by their rounded values."""

    def __init__(
        self,
        graph: Graph,
        ops: Mapping[str, int],
        leaves: Mapping[int, Mapping[int, int]],
        roundings: Roundings,
    ) -> None:
        self._graph, self._ops, self._output_roundings = graph, ops, roundings.outputs
        self._before: dict[int, dict[int, Rounding | torch.Tensor]] = {}
        for (op, identity), change in (*roundings.inputs.items(), *roundings.constants.items()):
            position = leaves.get(op, {}).get(identity)
            if position is None:
                raise RunFailed(f"{graph.ops[op].name} did not run on the calibration data")
            replacement = change if isinstance(change, Rounding) else torch.from_numpy(change)
            self._before.setdefault(op, {})[position] = replacement

    def round_inputs(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        pairs = zip(self._graph.inputs, tensors, strict=True)
        return [
            round_tensor(tensor, self._output_roundings[identity])
            if identity in self._output_roundings
            else tensor
            for identity, tensor in pairs
        ]

    def before(self, name: str, leaves: list[Any]) -> list[Any]:
        changes = self._before.get(self._ops.get(name, -1))
        for position, change in (changes or {}).items():
            old = leaves[position]
            if isinstance(change, Rounding):
                leaves[position] = round_tensor(old, change)
            else:
                leaves[position] = change.to(old.device, old.dtype)
        return leaves

    def after(self, call: _Call) -> Any:
        index = self._ops.get(call.name)
        if index is None or not any(
            leaf in self._output_roundings for leaf in self._graph.ops[index].outputs
        ):
            return call.result
        leaves, spec = pytree.tree_flatten(call.result)
        positions = [position for position, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        for position, identity in zip(positions, self._graph.ops[index].outputs, strict=False):
            if identity in self._output_roundings:
                rounded = round_tensor(leaves[position], self._output_roundings[identity])
                # Aliases of a tensor that was changed in place must see the rounded values too.
                leaves[position] = leaves[position].copy_(rounded) if call.operator.mutates else rounded
        return pytree.tree_unflatten(leaves, spec)


def round_tensor(tensor: torch.Tensor, rounding: Rounding) -> torch.Tensor:
    """Like `simulated_rounding.round_values`, for torch tensors."""
    if not tensor.is_floating_point():
        return tensor
    if rounding.dtype.family == "float":
        return tensor.to(getattr(torch, rounding.dtype.name)).to(tensor.dtype)
    scale = torch.tensor(rounding.scale, dtype=torch.float32, device=tensor.device)
    stored = torch.round(tensor.float() / scale).add_(rounding.zero_point)
    stored = stored.clamp_(rounding.low, rounding.high)
    return stored.sub_(rounding.zero_point).mul_(scale).to(tensor.dtype)


def _output_tensors(result: Any) -> list[torch.Tensor]:
    tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    if not tensors and hasattr(result, "__dict__"):
        tensors = [leaf for leaf in pytree.tree_leaves(vars(result)) if isinstance(leaf, torch.Tensor)]
    return tensors


def _numpy(tensor: torch.Tensor) -> Array:
    plain = tensor.detach().cpu()
    is_narrow = plain.is_floating_point() and plain.dtype is not torch.float64
    return np.array((plain.float() if is_narrow else plain).numpy())
