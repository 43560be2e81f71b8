"""Record a model's operators into a graph while it runs once on fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from sizeup.errors import LoadError, WeightsMissing
from sizeup.formats.torch.construction import Clock, FakeWeights
from sizeup.formats.torch.control_flow import CONTROL, WRAPPERS, run_wrapped
from sizeup.formats.torch.failures import NeedsRealData, error_summary
from sizeup.formats.torch.fake_results import FakeResults
from sizeup.formats.torch.nested import is_nested
from sizeup.formats.torch.operators import (
    META_KERNELS,
    SEQUENCES,
    ZERO_KERNELS,
    Operator,
    decompose,
    dtype_of,
    lower_call,
    operator_of,
    shape_of,
    tensor_arguments,
)
from sizeup.formats.torch.shape_env import SYMBOLIC_META_KERNELS, NamedShapeEnv, to_expressions
from sizeup.formats.torch.storages import StorageTracker
from sizeup.graph import ABSENT, Body, Constant, GraphBuilder, Role

Numbers: TypeAlias = np.ndarray[Any, Any]

_LAYOUT_SENSITIVE = ("conv", "layer_norm")  # their kernels' memory depends on the layout


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class hook has no types
    """Adds every operator that runs while it is active to a graph builder.

    In inference mode composite operators (linear, attention, LSTM) are dispatched as one call. Those with a
    cost rule are recorded, the others are decomposed by torch.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        builder: GraphBuilder,
        mode: FakeTensorMode | None = None,
        most_ops: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # nor has its constructor
        self.builder = builder
        self.mode = mode
        self.most_ops = most_ops
        self.clock = clock
        self.scope = ""
        self.storages = StorageTracker(builder.ops)
        self.preexisting: frozenset[int] = frozenset()  # ids of the model's tensors before the run
        self.wrappers: set[type] = set()  # subclasses whose operators are recorded on their inner tensors
        # Replaces packed weights among the arguments of an operator; set for modules.
        self.unpack: Callable[[Operator, tuple[Any, ...], dict[str, Any]], Any] | None = None
        self.opaque: dict[int, str] = {}  # why the size of a weight is unknown, by tensor id
        self._sizes = mode.shape_env if mode and isinstance(mode.shape_env, NamedShapeEnv) else None
        self._names: dict[str, int] = {}
        self._shared_constants: dict[tuple[Any, ...], int] = {}
        self.weights = FakeWeights(mode, self.storages) if mode and self._sizes is None else None
        self._results = FakeResults(mode) if mode and self._sizes is None else None

    def enter(self, scope: str) -> None:
        """Set the module that following ops belong to."""
        self.scope = scope

    def name_tensor(self, tensor: torch.Tensor, identity: int) -> None:
        """Map a tensor object to a value of the graph."""
        self.storages.track(tensor, identity)

    def add_constant(
        self, name: str, tensor: torch.Tensor, role: Role, read: Callable[[], Numbers] | None = None
    ) -> int:
        """Add a constant tensor; `read` returns its values on demand."""
        is_empty = isinstance(tensor, FakeTensor) or tensor.is_meta
        data = Constant(role, read or (None if is_empty else partial(tensor_values, tensor)))
        identity = self.builder.tensor(name, shape_of(tensor), dtype_of(tensor.dtype), data)
        self.storages.track(tensor, identity, constant=True)
        return identity

    def add_shared_constant(
        self, name: str, tensor: torch.Tensor, role: Role, read: Callable[[], Numbers] | None = None
    ) -> None:
        """Like `add_constant`, but tensors over the same bytes (tied weights) are added once."""
        if tensor.layout is not torch.strided:  # has no single storage
            self.add_constant(name, tensor, role, read)
            return
        storage = tensor.untyped_storage()._cdata
        location = (storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        known = self._shared_constants.get(location)
        if known is None:
            self._shared_constants[location] = self.add_constant(name, tensor, role, read)
        else:
            self.storages.track(tensor, known, constant=True)

    def identity(self, tensor: torch.Tensor | None) -> int:
        """Return the value of a tensor object; an untracked one is registered first."""
        if tensor is None:
            return ABSENT
        value = self.storages.value(tensor)
        return self._register(tensor) if value is None else value

    def _register(self, tensor: torch.Tensor) -> int:
        """Register a tensor that no recorded op produced: an alias, an unrecorded result or a constant."""
        base = self.storages.value_in_storage(tensor)
        if base is not None:
            return self._alias(tensor, base)
        if isinstance(tensor, FakeTensor) and id(tensor) not in self.preexisting:
            return self._add_unseen(tensor)
        self.add_shared_constant(self._unique("constant"), tensor, "constant")
        identity = self.storages.value(tensor)
        assert identity is not None  # tracked above
        return identity

    def _alias(self, tensor: torch.Tensor, base: int) -> int:
        """Register a new object over a known storage (copy.copy, as_subclass, .data = ...)."""
        known, shape, dtype = self.builder.tensors[base], shape_of(tensor), dtype_of(tensor.dtype)
        identity = base
        if (known.shape, known.dtype) != (shape, dtype):
            name = self._unique("alias")
            identity = self.builder.tensor(name, shape, dtype)
            self.builder.op("view", [base], [identity], {}, source="alias", name=name, scope=self.scope)
        self.name_tensor(tensor, identity)
        return identity

    def _add_unseen(self, tensor: torch.Tensor) -> int:
        """Add an op of unknown cost for a tensor created during the run outside the recorder's view."""
        name = self._unique("unseen")
        identity = self.builder.tensor(name, shape_of(tensor), dtype_of(tensor.dtype))
        self.builder.op("unseen", [], [identity], {}, source="unseen code", name=name, scope=self.scope)
        if name == "unseen":
            self.builder.note("some operators could not be recorded, for example in another thread")
        self.name_tensor(tensor, identity)
        return identity

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if is_nested(types) or (self.wrappers and not self.wrappers.isdisjoint(types)):
            return NotImplemented  # torch runs the operator on the tensors that they contain
        kwargs = kwargs or {}
        if self.clock is not None:
            self.clock.check()
        operator = operator_of(func)
        parts = decompose(self, func, operator, args, kwargs)
        if parts is not NotImplemented:
            return parts
        if self.most_ops is not None and len(self.builder.ops) >= self.most_ops:
            raise LoadError(f"{self.builder.name}: forward runs more than {self.most_ops:,} operators")
        if operator.source in CONTROL:
            return self._record_control(operator, args)
        if operator.source in WRAPPERS:
            with self:
                return run_wrapped(operator.source, args)
        if self._sizes is None:
            result = self._run(operator, func, args, kwargs)
        else:
            self._attribute(self._sizes, "code", operator.source)
            result = self._run(operator, func, args, kwargs)
            self._attribute(self._sizes, operator.source, "code")
        if not operator.skipped:
            try:
                self._record(operator, args, kwargs, result)
            except Exception as error:
                raise LoadError(
                    f"{operator.source} in {self.scope or 'the model'} could not be recorded:"
                    f" {error_summary(error)}"
                ) from error
        return result

    def _attribute(self, sizes: NamedShapeEnv, current: str, following: str) -> None:
        """Attribute the guards since the last call to `current`."""
        scope = self.scope or "the model"
        sizes.attribute(f"{current} in {scope}", f"{following} in {scope}")

    def _run(self, operator: Operator, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if operator.mutates and self.mode is not None and not _has_fake(args):
            # torch runs small arithmetic on the model's own tensors with real data, also in place.
            args, kwargs = tree_map_only(torch.Tensor, self._to_fake, (args, kwargs))
        if isinstance(args[0] if args else None, FakeTensor):
            meta_kernel = META_KERNELS.get(operator.source)
            if meta_kernel is not None and operator.arguments[0] != "data":
                return meta_kernel(*args)
        elif operator.source in ZERO_KERNELS and args[0].device.type == "cpu":
            return ZERO_KERNELS[operator.source](*args)
        if self._sizes is not None:
            kernel = SYMBOLIC_META_KERNELS.get(operator.source)
            result = NotImplemented if kernel is None else kernel(*args, **kwargs)
            if result is not NotImplemented:
                return result
        try:
            if self.weights is not None and not operator.mutates:
                args = self.weights.replace_in(args)
            return func(*args, **kwargs) if self._results is None else self._results.call(func, args, kwargs)
        except Exception as error:
            # Custom operators often have no meta kernel.
            if operator.source.startswith(("aten.", "prims.")) or not _has_fake(args):
                raise
            raise NeedsRealData(f"{operator.source} cannot run without data") from error

    def _to_fake(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.mode is None or isinstance(tensor, FakeTensor):
            return tensor
        fake = self.mode.from_tensor(tensor)
        known = self.storages.value(tensor)
        if known is not None and self.storages.value(fake) is None:
            self.storages.track(fake, known, constant=self.storages.is_constant(tensor))
        return fake

    def _record(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        outputs = _tensors(result)
        if not outputs:
            return
        if operator.packed and self.unpack is not None:
            args, kwargs = self.unpack(operator, args, kwargs)
        op_kind, inputs, attrs = lower_call(operator, args, kwargs, outputs)
        if attrs:
            attrs = {name: to_expressions(value) for name, value in attrs.items()}
            if "caveat" in attrs:
                self.builder.note(attrs.pop("caveat"))
        if not operator.mutates:
            for tensor in inputs:
                if outputs[0] is tensor:
                    return  # it returned one of its inputs
            weight = None if self.weights is None else self.weights.weight_of(outputs[0])
            if weight is not None:  # it returned the fake tensor of one of its inputs
                self.storages.track(outputs[0], self.identity(weight), constant=True)
                return
        self._add(operator, op_kind, inputs, outputs, attrs)

    def record_declared_call(self, operator: Operator, kwargs: dict[str, Any], result: Any) -> None:
        """Record an operator that was not run, with the outputs that the file declares."""
        self._add(operator, operator.kind, tensor_arguments(operator, (), kwargs), _tensors(result), {})

    def _record_control(self, operator: Operator, args: tuple[Any, ...]) -> Any:
        result, bodies, inputs = CONTROL[operator.source](self, args)
        self._add(operator, operator.kind, inputs, _tensors(result), {}, bodies)
        return result

    def record_body(
        self, name: str, function: Callable[..., Any], operands: Sequence[Any], runs: int | None = 1
    ) -> tuple[Any, Body]:
        """Run one function with a new recorder; constants of the outer graph stay constants."""
        inner = Recorder(GraphBuilder(name, self.builder.format), self.mode)
        inner.scope, inner.wrappers, inner.unpack = self.scope, self.wrappers, self.unpack
        for index, operand in enumerate(operands):
            if not isinstance(operand, torch.Tensor):
                continue
            known = self.builder.tensors[self.identity(operand)]
            identity = inner.builder.tensor(
                known.name or f"operand_{index}", known.shape, known.dtype, known.data
            )
            if known.data is None or known.data.role == "derived":
                inner.builder.inputs.append(identity)
            inner.name_tensor(operand, identity)
        with inner:
            result = function(*operands)
        tensors = [tensor for tensor in tree_leaves(result) if isinstance(tensor, torch.Tensor)]
        identities = dict.fromkeys(inner.identity(tensor) for tensor in tensors)
        inner.builder.outputs.extend(identity for identity in identities if identity != ABSENT)
        return result, Body(name, inner.builder.freeze(), to_expressions(runs))

    def _add(
        self,
        operator: Operator,
        op_kind: str,
        inputs: list[Any],
        outputs: list[torch.Tensor],
        attrs: dict[str, Any],
        bodies: tuple[Body, ...] = (),
    ) -> None:
        identities = [self.identity(item) for item in inputs]
        if op_kind in _LAYOUT_SENSITIVE:
            for tensor, identity in zip(inputs[:2], identities, strict=False):
                self.storages.note_layout(tensor, identity)
        if op_kind == "matmul":
            self._note_operands(inputs, identities)
        name = self._unique(operator.name)
        tensors = self.builder.tensors
        is_derived = operator.views and all(i != ABSENT and tensors[i].data is not None for i in identities)
        output_ids = []
        for index, output in enumerate(outputs):
            label = name if index == 0 else f"{name}.{index}"
            data = Constant("derived") if is_derived else None
            output_ids.append(self.builder.tensor(label, shape_of(output), dtype_of(output.dtype), data))
            self.storages.track(output, output_ids[-1], constant=is_derived)
        reason = next((self.opaque[i] for i in identities if i in self.opaque), None)
        attrs = attrs if reason is None else {**attrs, "invalid": reason}
        source, scope = operator.source, self.scope
        self.builder.op(
            op_kind, identities, output_ids, attrs, source=source, name=name, scope=scope, bodies=bodies
        )

    def _note_operands(self, inputs: list[Any], identities: list[int]) -> None:
        """Note the layout of matmul operands: (rows x matrix), or batches of matrices on both sides."""
        matrices = 1 if min(operand.dim() for operand in inputs[:2]) <= 2 else 2
        for tensor, identity in zip(inputs[:2], identities, strict=False):
            if tensor.dim() > 2:
                self.storages.note_operand(tensor, identity, matrices)

    def _unique(self, base: str) -> str:
        count = self._names.get(base, 0)
        self._names[base] = count + 1
        return f"{base}_{count}" if count else base


def tensor_values(tensor: torch.Tensor) -> Numbers:
    """Return the values of a tensor; raises WeightsMissing if it has none."""
    if isinstance(tensor, FakeTensor) or tensor.is_meta:
        raise WeightsMissing("the model has no weights, only their shapes; pass a module with weights")
    with torch.no_grad():
        plain = tensor.int_repr().cpu() if tensor.is_quantized else tensor.detach().cpu()
        # numpy has no bfloat16 and no 8-bit floats.
        has_numpy_dtype = plain.dtype in (torch.float16, torch.float32, torch.float64)
        is_narrow = plain.dtype.is_floating_point and not has_numpy_dtype
        array: np.ndarray[Any, Any] = (plain.float() if is_narrow else plain).numpy()
    return array


def _has_fake(args: tuple[Any, ...]) -> bool:
    return any(isinstance(tensor, FakeTensor) for tensor in _tensors(args))


def _tensors(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, SEQUENCES):
        return [tensor for item in result for tensor in _tensors(item)]
    return []
