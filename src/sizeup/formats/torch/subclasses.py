"""Weights that are tensor subclasses (torchao's quantized weights): add the tensors that they contain."""

from __future__ import annotations

from itertools import islice

import torch
from torch._subclasses.fake_tensor import FakeTensor

from sizeup.formats.torch.operators import dtype_of, shape_of
from sizeup.formats.torch.quantized_weights import QuantizedWeights, read_of
from sizeup.formats.torch.record import Recorder
from sizeup.graph import Constant, Role

_PLAIN_TYPES = frozenset((torch.Tensor, torch.nn.Parameter, FakeTensor))
_MAX_DEPTH = 8
_MAX_TENSORS = 64
_MAX_TEXT = 200
_ANY_ERROR = (Exception, SystemExit)  # code of a subclass may raise anything


class UnreadableSubclass(Exception):
    """The inner tensors of a tensor subclass cannot be read."""


def inner_tensors(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the plain tensors inside a subclass by name, following nested subclasses.

    Raises UnreadableSubclass if `__tensor_flatten__` fails, does not return names of tensors, or is nested
    too deeply.
    """
    tensors: dict[str, torch.Tensor] = {}
    _flatten(tensor, "", {id(tensor)}, tensors)
    if not tensors:
        raise UnreadableSubclass("__tensor_flatten__ names no tensors")
    return tensors


def _flatten(tensor: torch.Tensor, prefix: str, open_ids: set[int], tensors: dict[str, torch.Tensor]) -> None:
    try:
        flattened = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
        names = list(islice(flattened[0], _MAX_TENSORS + 1))
    except _ANY_ERROR as error:
        raise UnreadableSubclass(f"__tensor_flatten__ failed: {_summary(error)}") from error
    if len(open_ids) > _MAX_DEPTH or len(tensors) + len(names) > _MAX_TENSORS:
        raise UnreadableSubclass(f"more than {_MAX_DEPTH} levels or {_MAX_TENSORS} inner tensors")
    for name in names:
        try:
            inner = getattr(tensor, name)
        except _ANY_ERROR as error:  # a wrong name, or a property that fails
            raise UnreadableSubclass(f"{name!r:.60}: {_summary(error)}") from error
        if not isinstance(inner, torch.Tensor) or inner.layout is not torch.strided:
            raise UnreadableSubclass(f"{name!r:.60} is not a dense tensor")
        if id(inner) in open_ids:
            raise UnreadableSubclass(f"{name!r:.60} contains itself")
        if is_wrapper(inner):
            _flatten(inner, f"{prefix}{name}.", open_ids | {id(inner)}, tensors)
        else:
            tensors[f"{prefix}{name}"] = inner


def _summary(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:_MAX_TEXT]


def is_wrapper(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a subclass that holds other tensors instead of a storage."""
    if type(tensor) in _PLAIN_TYPES or isinstance(tensor, FakeTensor):
        return False
    return hasattr(type(tensor), "__tensor_flatten__") or _has_no_storage(tensor)


def _has_no_storage(tensor: torch.Tensor) -> bool:
    if tensor.is_meta or tensor.layout is not torch.strided:
        return False
    try:
        tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):
        return True
    return False


def add_wrapper(
    recorder: Recorder,
    name: str,
    tensor: torch.Tensor,
    role: Role,
    stored: QuantizedWeights,
    values: torch.Tensor | None = None,
) -> None:
    """Add a subclass by its inner tensors, or as a weight of unknown size if they cannot be read.

    `values` is the subclass with the values, if `tensor` is fake.
    """
    type_name = type(tensor).__name__
    try:
        tensors = inner_tensors(tensor)
        with_values = tensors if values is None else inner_tensors(values)
    except UnreadableSubclass as error:
        _add_opaque(recorder, name, tensor, role, f"the inner tensors of {type_name} cannot be read: {error}")
        return
    reads = {key: read_of(inner) for key, inner in with_values.items()}
    values_dtype = vars(tensor).get("target_dtype")  # of torchao's int4 values in bytes
    if isinstance(values_dtype, torch.dtype):
        type_name += f", {str(values_dtype).removeprefix('torch.')} values"
    identity = stored.add(name, tuple(tensor.shape), tensors, role, type_name, reads)
    recorder.storages.track(tensor, identity, constant=True)
    recorder.wrappers.add(type(tensor))  # its operators run on the inner tensors


def _add_opaque(recorder: Recorder, name: str, tensor: torch.Tensor, role: Role, reason: str) -> None:
    """Add a weight at the dtype that it declares, and an op of unknown cost that reads it."""
    builder = recorder.builder
    identity = builder.tensor(name, shape_of(tensor), dtype_of(tensor.dtype), Constant(role))
    recorder.storages.track(tensor, identity, constant=True)
    source = type(tensor).__name__
    recorder.opaque[identity] = reason
    builder.op("opaque_weight", [identity], [], {"invalid": reason}, source=source, name=name)
    builder.note(f"{name}: {reason}; its bytes are counted at the dtype that it declares, {tensor.dtype}")
