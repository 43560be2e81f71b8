"""Recording a module: which tensors it runs on, how it is run, and what to try when that fails."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from copy import deepcopy
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.utils import _pytree as pytree

from sizeup.errors import LoadError, NumbersMissing, SizeupError
from sizeup.formats.torch.inputs import Arguments, arguments, named_leaves, prepare
from sizeup.formats.torch.record import NeedsNumbers, Recorder, module_scopes, untouched
from sizeup.formats.torch.translate import SEQUENCES, dtype_of, shape_of
from sizeup.formats.torch.weightless import Clock, TimeLimit
from sizeup.graph import Graph, GraphBuilder, without_collection

# What only real numbers can answer, or only a real kernel can run.
_NEEDS_NUMBERS = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    GuardOnDataDependentSymNode,
    NeedsNumbers,
)
_ANYTHING = (Exception, SystemExit)  # a model's forward may raise what it likes
# The second one writes down every question about a free size.
_CHATTY = ("torch._subclasses.fake_tensor", "torch.__trace", "torch.fx.experimental.symbolic_shapes")
REAL_RUN_BYTES = 4 << 30
_REAL_RUN_NOTE = "recorded from a run with real numbers, because what it computes depends on them: {why}"


def fake_mode() -> FakeTensorMode:
    """Tensors without content; what depends on content becomes an unknown size instead of an error."""
    return FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True)


def record(
    module: torch.nn.Module,
    inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    mode: FakeTensorMode | None = None,
    most_ops: int | None = None,
    limit: TimeLimit | None = None,
) -> Graph:
    """The graph of one forward pass of a module, which is left as it was."""
    module = unwrapped(module)
    given = arguments(inputs, kwargs)
    name = name or type(module).__name__
    mode = mode or fake_mode()
    clock = None if limit is None else limit.start()
    try:
        return attempt(module, given, name, mode, inference=True, most_ops=most_ops, clock=clock)
    except SizeupError:
        raise
    except _NEEDS_NUMBERS as error:
        return _record_with_numbers(module, given, name, error, clock)
    except _ANYTHING:
        pass  # some models need autograd inside their forward, which inference mode forbids
    try:
        return attempt(module, given, name, mode, inference=False, most_ops=most_ops, clock=clock)
    except SizeupError:
        raise
    except _ANYTHING as error:
        # Code that looks at numbers in ways of its own (NumPy, formatting) fails in as many ways.
        return _record_with_numbers(module, given, name, error, clock)


def _record_with_numbers(
    module: torch.nn.Module, given: Arguments, name: str, error: BaseException, clock: Clock | None
) -> Graph:
    """Run a copy of the model for real, because it asked for numbers, or may have: a last try."""
    why = summary(error)
    if not _can_run(module):
        if not isinstance(error, _NEEDS_NUMBERS):
            raise _failed(name, given, error) from error
        raise NumbersMissing(
            f"{name}: what it computes depends on its numbers, which are not here: {why};"
            " give the module itself, with weights, and a run with real numbers is recorded"
        ) from error
    try:
        # A run with numbers may update statistics: let a copy do it.
        with torch.random.fork_rng(devices=[]):
            note = _REAL_RUN_NOTE.format(why=why)
            return attempt(deepcopy(module), given, name, None, inference=True, note=note, clock=clock)
    except SizeupError:
        raise
    except _ANYTHING as last:
        raise _failed(name, given, last) from last


def _failed(name: str, given: Arguments, error: BaseException) -> LoadError:
    what = f"{name}: its forward failed on {_described(given)}: {type(error).__name__}: {summary(error)}"
    if not any(given):
        return LoadError(f"{what}; give it inputs: --input 1x3x224x224, or inputs=((1, 3, 224, 224),)")
    return LoadError(f"{what}; check the inputs that it was given")


def attempt(
    module: torch.nn.Module,
    given: Arguments,
    name: str,
    mode: FakeTensorMode | None,
    *,
    inference: bool,
    note: str = "",
    most_ops: int | None = None,
    clock: Clock | None = None,
) -> Graph:
    """One run of a module, recorded; the tensors of `given` may have free dimensions."""
    builder = GraphBuilder(name, "torch")
    recorder = Recorder(builder, mode, most_ops, clock)
    device, dtype = home_of(module)
    args, kwargs = prepare(given, device, dtype, mode)
    for label, tensor in named_leaves(module.forward, (args, kwargs)):
        identity = builder.input(label, shape_of(tensor), dtype_of(tensor.dtype))
        recorder.name_tensor(tensor, identity)
    for label, parameter in module.named_parameters():
        recorder.add_shared_constant(label, parameter, "parameter")
    for label, buffer in module.named_buffers():
        recorder.add_shared_constant(label, buffer, "buffer")
    paths = list(module.named_modules())
    modules = [each for _, each in paths]
    recorder.held_before = _held(modules)
    if any(".quantized" in each for each in {type(each).__module__ for each in modules}):
        builder.note("weights packed inside quantised modules are not among the parameters")
    with ExitStack() as stack:
        stack.enter_context(without_collection() if mode else nullcontext())
        stack.enter_context(untouched(modules))
        stack.enter_context(plain_execution())
        stack.enter_context(_without_dlpack() if mode else nullcontext())
        stack.enter_context(torch.inference_mode() if inference else torch.enable_grad())
        stack.enter_context(mode or nullcontext())
        stack.enter_context(module_scopes(paths, recorder.enter))
        stack.enter_context(recorder)
        result = module(*args, **kwargs)
    builder.outputs.extend(dict.fromkeys(recorder.identity(each) for each in _output_tensors(result)))
    if note:
        builder.note(note)
    builder.run = recorder.holders.run(len(builder.tensors), device.type)
    return builder.freeze()


def _held(modules: list[torch.nn.Module]) -> frozenset[int]:
    """Tensors that modules keep as plain attributes, or in lists of those."""
    values = [value for each in modules for value in vars(each).values() if type(value) not in _USUAL]
    values += [item for value in values if isinstance(value, SEQUENCES) for item in value]
    return frozenset(id(value) for value in values if isinstance(value, torch.Tensor))


# Most attributes of a module, and neither tensors nor lists of them.
_USUAL = frozenset((bool, int, float, str, dict, OrderedDict, set, type(None)))


@contextmanager
def _without_dlpack() -> Iterator[None]:
    """A tensor without content must not be handed to other libraries: they would read at address 0."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise NeedsNumbers("the model hands its tensors to another library (DLPack)")

    holders = ((torch.Tensor, "__dlpack__"), (torch._C, "_to_dlpack"), (torch.utils.dlpack, "to_dlpack"))
    before = [(holder, name, getattr(holder, name)) for holder, name in holders if hasattr(holder, name)]
    for holder, name, _ in before:
        setattr(holder, name, refuse)
    try:
        yield
    finally:
        for holder, name, function in before:
            setattr(holder, name, function)


@contextmanager
def plain_execution() -> Iterator[None]:
    """Compiled regions run as they are written, and torch is silent about what it will raise."""
    loggers = [logging.getLogger(name) for name in _CHATTY]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.CRITICAL)
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """The module inside of what parallel training and compilers put around it."""
    wrappers = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    while True:
        if isinstance(module, wrappers):
            module = module.module
        elif "_orig_mod" in module._modules:  # torch.compile's wrapper
            module = module._modules["_orig_mod"]  # type: ignore[assignment]
        else:
            return module


def home_of(module: torch.nn.Module) -> tuple[torch.device, torch.dtype]:
    """Where a plain shape's tensor should live, and its number type: those of the first parameters."""
    device = None
    for parameter in module.parameters():
        device = device or parameter.device
        if parameter.dtype.is_floating_point:
            return device, parameter.dtype
    return device or torch.device("cpu"), torch.float32


def _can_run(module: torch.nn.Module) -> bool:
    """Whether the module holds real numbers, few enough to run it here."""
    held = [*module.parameters(), *module.buffers()]
    if any(isinstance(each, FakeTensor) or each.device.type == "meta" for each in held):
        return False
    return sum(each.numel() * each.element_size() for each in held) <= REAL_RUN_BYTES


def _output_tensors(result: Any) -> list[torch.Tensor]:
    found = [each for each in pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]
    if not found and hasattr(result, "__dict__"):
        found = [each for each in pytree.tree_leaves(vars(result)) if isinstance(each, torch.Tensor)]
    return found


def summary(error: BaseException) -> str:
    """The first line of an error, and where torch says that it comes from."""
    lines = str(error).strip().splitlines() or [""]
    cause = next(
        (f" {line.partition(':')[2].strip()}" for line in lines if line.startswith("Caused by:")), ""
    )
    return lines[0].partition(" (unhinted")[0] + cause


def _described(given: Arguments) -> str:
    args, kwargs = given

    def one(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return "x".join(map(str, value.shape)) or "a scalar"
        return str(value)

    parts = [*map(one, args), *(f"{key}={one(value)}" for key, value in kwargs.items())]
    return ", ".join(parts) or "no inputs"
