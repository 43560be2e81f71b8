"""The eager door: run the model once on tensors without content, and write down what it calls."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import is_
from typing import Any, TypeAlias

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from sizeup.errors import LoadError, NumbersMissing
from sizeup.formats.torch.control import CONTROL, WRAPPERS, unwrapped_call
from sizeup.formats.torch.holders import Holders
from sizeup.formats.torch.symbolic import STAND_INS, NamedSizes, plain
from sizeup.formats.torch.translate import (
    SEQUENCES,
    SHORTCUTS,
    Operator,
    dtype_of,
    normalise,
    operator_of,
    shape_of,
    taken_apart,
    tensor_arguments,
)
from sizeup.formats.torch.weightless import Clock, FakeWeights
from sizeup.graph import ABSENT, Body, Constant, GraphBuilder, Role

Numbers: TypeAlias = np.ndarray[Any, Any]

_MIND_LAYOUTS = ("conv", "layer_norm")  # their kernels take more or less memory by how the data lies


class NeedsNumbers(Exception):
    """An operator cannot run on tensors without content."""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class hook has no types
    """Writes every operator that runs while it is active into a graph builder.

    It is used in inference mode, where composite operators (linear, attention, LSTM) arrive whole:
    those with a rule are kept whole, the others are taken apart by torch itself.
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
        self.holders = Holders(builder.ops)
        self.held_before: frozenset[int] = frozenset()  # ids of tensors that a model had before it ran
        self._sizes = mode.shape_env if mode and isinstance(mode.shape_env, NamedSizes) else None
        self._names: dict[str, int] = {}
        self._places: dict[tuple[Any, ...], int] = {}
        self._weights = FakeWeights(mode, self.holders) if mode and self._sizes is None else None

    def enter(self, scope: str) -> None:
        """Attribute what follows to a module."""
        self.scope = scope

    def name_tensor(self, tensor: torch.Tensor, identity: int) -> None:
        """Let a tensor object stand for a value of the graph, from now on."""
        self.holders.name(tensor, identity)

    def add_constant(
        self, name: str, tensor: torch.Tensor, role: Role, read: Callable[[], Numbers] | None = None
    ) -> int:
        """Add a tensor whose content is fixed; its numbers are read only when asked for, by `read`."""
        is_empty = isinstance(tensor, FakeTensor) or tensor.is_meta  # a network that is named has no weights
        data = Constant(role, read or (None if is_empty else partial(numbers, tensor)))
        identity = self.builder.tensor(name, shape_of(tensor), dtype_of(tensor.dtype), data)
        self.holders.name(tensor, identity, fixed=True)
        return identity

    def add_shared_constant(
        self, name: str, tensor: torch.Tensor, role: Role, read: Callable[[], Numbers] | None = None
    ) -> None:
        """The same, but tensors over the same bytes are one: tied weights."""
        if tensor.layout is not torch.strided:  # there is no one storage
            self.add_constant(name, tensor, role, read)
            return
        storage = tensor.untyped_storage()._cdata
        place = (storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        known = self._places.get(place)
        if known is None:
            self._places[place] = self.add_constant(name, tensor, role, read)
        else:
            self.holders.name(tensor, known, fixed=True)

    def identity(self, tensor: torch.Tensor | None) -> int:
        """The value that a tensor object stands for; one never seen before is a constant."""
        if tensor is None:
            return ABSENT
        found = self.holders.value(tensor)
        return self._find(tensor) if found is None else found

    def _find(self, tensor: torch.Tensor) -> int:
        """What a tensor is that no operator was seen to make: another name of known bytes, or a constant."""
        beneath = self.holders.value_beneath(tensor)
        if beneath is not None:
            return self._renamed(tensor, beneath)
        if isinstance(tensor, FakeTensor) and id(tensor) not in self.held_before:
            return self._unseen(tensor)
        self.add_shared_constant(self._unique("constant"), tensor, "constant")
        found = self.holders.value(tensor)
        assert found is not None  # it was just named
        return found

    def _renamed(self, tensor: torch.Tensor, beneath: int) -> int:
        """Python made a new object for bytes that are known (copy.copy, as_subclass, .data = ...)."""
        known, shape, kind = self.builder.tensors[beneath], shape_of(tensor), dtype_of(tensor.dtype)
        identity = beneath
        if (known.shape, known.dtype) != (shape, kind):
            name = self._unique("alias")
            identity = self.builder.tensor(name, shape, kind)
            self.builder.op("view", [beneath], [identity], {}, source="alias", name=name, scope=self.scope)
        self.name_tensor(tensor, identity)
        return identity

    def _unseen(self, tensor: torch.Tensor) -> int:
        """It was made while the model ran, but not where we look: what made it is a row that is not known."""
        name = self._unique("unseen")
        identity = self.builder.tensor(name, shape_of(tensor), dtype_of(tensor.dtype))
        self.builder.op("unseen", [], [identity], {}, source="unseen code", name=name, scope=self.scope)
        if name == "unseen":
            self.builder.note("some operators ran where they are not seen, such as in another thread")
        self.name_tensor(tensor, identity)
        return identity

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.clock is not None:
            self.clock.check()
        operator = operator_of(func)
        parts = taken_apart(self, func, operator, args, kwargs)
        if parts is not NotImplemented:
            return parts
        if self.most_ops is not None and len(self.builder.ops) >= self.most_ops:
            raise LoadError(f"{self.builder.name}: its forward runs more than {self.most_ops:,} operators")
        if operator.source in CONTROL:
            return self._record_control(operator, args)
        if operator.source in WRAPPERS:
            with self:
                return unwrapped_call(operator.source, args)
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
                what = f"{type(error).__name__}: {error}"
                raise LoadError(
                    f"{operator.source} in {self.scope or 'the model'} could not be read: {what}"
                ) from error
        return result

    def _attribute(self, sizes: NamedSizes, what: str, then: str) -> None:
        """Symbolic dimensions: what was asked of them until now was asked by this."""
        scope = self.scope or "the model"
        sizes.attribute(f"{what} in {scope}", f"{then} in {scope}")

    def _run(self, operator: Operator, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if operator.mutates and self.mode is not None and not _holds_fake(args):
            # Torch computes small arithmetic on the model's own tensors for real, in place too.
            args, kwargs = tree_map_only(torch.Tensor, self._without_content, (args, kwargs))
        if isinstance(args[0] if args else None, FakeTensor):
            shortcut = SHORTCUTS.get(operator.source)
            if shortcut is not None and operator.arguments[0] != "data":
                return shortcut(*args)
        if self._sizes is not None:
            stand_in = STAND_INS.get(operator.source)
            made = NotImplemented if stand_in is None else stand_in(*args, **kwargs)
            if made is not NotImplemented:
                return made
        try:
            if self._weights is not None and not operator.mutates:
                args = self._weights.within(args)
            return func(*args, **kwargs)
        except Exception as error:
            # Operators from outside torch often come without a content-free implementation.
            if operator.source.startswith(("aten.", "prims.")) or not _holds_fake(args):
                raise
            raise NeedsNumbers(f"{operator.source} cannot run on tensors without content") from error

    def _without_content(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.mode is None or isinstance(tensor, FakeTensor):
            return tensor
        bare = self.mode.from_tensor(tensor)
        known = self.holders.value(tensor)
        if (
            known is not None and self.holders.value(bare) is None
        ):  # what is written into it stays in its place
            self.holders.name(bare, known, fixed=self.holders.is_fixed(tensor))
        return bare

    def _record(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        outputs = _tensors(result)
        if not outputs:
            return
        kind, inputs, attrs = normalise(operator, args, kwargs, outputs)
        if attrs:
            attrs = {name: plain(value) for name, value in attrs.items()}
        if not operator.mutates:
            for each in inputs:
                if outputs[0] is each:
                    return  # it returned what it was given
        self._add(operator, kind, inputs, outputs, attrs)

    def record_unseen_call(self, operator: Operator, kwargs: dict[str, Any], result: Any) -> None:
        """Write down an operator that was not run; its outputs are as a file declares them."""
        self._add(operator, operator.kind, tensor_arguments(operator, (), kwargs), _tensors(result), {})

    def _record_control(self, operator: Operator, args: tuple[Any, ...]) -> Any:
        result, bodies, taken = CONTROL[operator.source](self, args)
        self._add(operator, operator.kind, taken, _tensors(result), {}, bodies)
        return result

    def record_body(
        self, name: str, function: Callable[..., Any], operands: Sequence[Any], runs: int | None = 1
    ) -> tuple[Any, Body]:
        """Run one function with a new recorder; constants of the outer graph stay the same constants."""
        inner = Recorder(GraphBuilder(name, self.builder.format), self.mode)
        inner.scope = self.scope
        for place, operand in enumerate(operands):
            if not isinstance(operand, torch.Tensor):
                continue
            known = self.builder.tensors[self.identity(operand)]
            identity = inner.builder.tensor(
                known.name or f"operand_{place}", known.shape, known.dtype, known.data
            )
            if known.data is None or known.data.role == "derived":
                inner.builder.inputs.append(identity)
            inner.name_tensor(operand, identity)
        with inner:
            result = function(*operands)
        tensors = [each for each in tree_leaves(result) if isinstance(each, torch.Tensor)]
        identities = dict.fromkeys(inner.identity(each) for each in tensors)
        inner.builder.outputs.extend(each for each in identities if each != ABSENT)
        return result, Body(name, inner.builder.freeze(), plain(runs))

    def _add(
        self,
        operator: Operator,
        kind: str,
        inputs: list[Any],
        outputs: list[torch.Tensor],
        attrs: dict[str, Any],
        bodies: tuple[Body, ...] = (),
    ) -> None:
        identities = [self.identity(each) for each in inputs]
        if kind in _MIND_LAYOUTS:
            for tensor, identity in zip(inputs[:2], identities, strict=False):
                self.holders.note_layout(tensor, identity)
        if kind == "matmul":
            self._note_operands(inputs, identities)
        name = self._unique(operator.name)
        tensors = self.builder.tensors
        derived = operator.views and all(i != ABSENT and tensors[i].data is not None for i in identities)
        made = []
        for place, output in enumerate(outputs):
            label = name if place == 0 else f"{name}.{place}"
            data = Constant("derived") if derived else None
            made.append(self.builder.tensor(label, shape_of(output), dtype_of(output.dtype), data))
            self.holders.name(output, made[-1], fixed=derived)
        self.builder.op(
            kind, identities, made, attrs, source=operator.source, name=name, scope=self.scope, bodies=bodies
        )

    def _note_operands(self, inputs: list[Any], identities: list[int]) -> None:
        """A matrix on one side makes rows of all that the other holds; else both are batches of matrices."""
        matrices = 1 if min(each.dim() for each in inputs[:2]) <= 2 else 2
        for tensor, identity in zip(inputs[:2], identities, strict=False):
            if tensor.dim() > 2:
                self.holders.note_operand(tensor, identity, matrices)

    def _unique(self, base: str) -> str:
        count = self._names.get(base, 0)
        self._names[base] = count + 1
        return f"{base}_{count}" if count else base


def numbers(tensor: torch.Tensor) -> Numbers:
    """The content of a tensor; raises NumbersMissing if it has none."""
    if isinstance(tensor, FakeTensor) or tensor.is_meta:
        raise NumbersMissing("only the shapes of its weights are known: give a module that has weights")
    with torch.no_grad():
        plain = tensor.detach().cpu()
        # numpy has no bfloat16 and no 8-bit floats.
        small = plain.dtype.is_floating_point and plain.dtype not in (
            torch.float16,
            torch.float32,
            torch.float64,
        )
        found: np.ndarray[Any, Any] = (plain.float() if small else plain).numpy()
    return found


def _holds_fake(args: tuple[Any, ...]) -> bool:
    return any(isinstance(each, FakeTensor) for each in _tensors(args))


def _tensors(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, SEQUENCES):
        return [tensor for each in result for tensor in _tensors(each)]
    return []


@contextmanager
def module_scopes(
    modules: Iterable[tuple[str, torch.nn.Module]], enter: Callable[[str], None]
) -> Iterator[None]:
    """Call `enter` with the path of the module that runs, through hooks that end with this block."""
    paths = {id(module): path for path, module in modules}
    stack = [""]

    def before(module: torch.nn.Module, _args: Any) -> None:
        path = paths.get(id(module))
        if path is None:  # made while running
            path = f"{stack[-1]}.{type(module).__name__}".lstrip(".")
        stack.append(path)
        enter(path)

    def after(_module: torch.nn.Module, _args: Any, _result: Any) -> None:
        stack.pop()
        enter(stack[-1])

    with ExitStack() as hooks:
        hooks.callback(register_module_forward_pre_hook(before).remove)
        hooks.callback(register_module_forward_hook(after, always_call=True).remove)
        yield


@contextmanager
def untouched(modules: Iterable[torch.nn.Module]) -> Iterator[None]:
    """Put back whatever a model's forward sets on its modules: attributes, and what its containers hold."""
    # Compiled modules keep their attributes elsewhere, and set none.
    set_here = [vars(each) for each in modules if not isinstance(each, torch.jit.ScriptModule)]
    kept = [(attributes, attributes.copy()) for attributes in set_here]
    containers = {id(each): each for _, then in kept for each in then.values() if type(each) in _CONTAINERS}
    # Most of them are empty, and stay so: they share one copy.
    held = [(each, _plain_copy(each) if each else ()) for each in containers.values()]
    try:
        yield
    finally:
        for now, then in (*kept, *held):
            if now or then:
                _restore(now, then)


_CONTAINERS = frozenset((dict, OrderedDict, defaultdict, list, set, deque))


def _plain_copy(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)


def _restore(now: Any, then: Any) -> None:
    if isinstance(now, dict):
        same = len(now) == len(then) and now.keys() == then.keys()
        if not same or not all(map(is_, now.values(), then.values())):
            now.clear()
            now.update(then)
    elif len(now) != len(then) or not all(map(is_, now, then)):
        now.clear()
        now.update(then) if isinstance(now, set) else now.extend(then)
