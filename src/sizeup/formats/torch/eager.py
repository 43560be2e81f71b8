"""Trace a module: prepare its inputs, run it on fake tensors, and fall back to a real run."""

from __future__ import annotations

import logging
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from sizeup.errors import LoadError, SizeupError, StateChanged, WeightsMissing
from sizeup.formats.torch.attention_lowering import BOUND_CAVEATS
from sizeup.formats.torch.construction import Clock, TimeLimit
from sizeup.formats.torch.failures import (
    NEEDS_DATA,
    NeedsRealData,
    error_summary,
    forward_error_text,
    keep_failure,
)
from sizeup.formats.torch.inputs import Arguments, has_values, module_arguments, named_leaves, prepare
from sizeup.formats.torch.isolation import copy_with_state, preserve_state
from sizeup.formats.torch.leaks import leave_no_trace
from sizeup.formats.torch.modes import mode_note, run_mode
from sizeup.formats.torch.module_scopes import module_scopes
from sizeup.formats.torch.nested import LENGTHS_ARE_DATA, NestedAttention, has_nested, plain_tensor
from sizeup.formats.torch.operators import SEQUENCES, dtype_of, shape_of
from sizeup.formats.torch.record import Recorder
from sizeup.formats.torch.weights import add_module_weights
from sizeup.graph import Graph, GraphBuilder, without_gc

_ANY_ERROR = (Exception, SystemExit)  # forward may raise anything
# The second logs every guard on a symbolic dimension.
_NOISY_LOGGERS = ("torch._subclasses.fake_tensor", "torch.__trace", "torch.fx.experimental.symbolic_shapes")
REAL_RUN_BYTES = 4 << 30
_DATA_DEPENDENT = "sizes depend on the values of tensors"
_REAL_RUN_NOTE = "traced with real data: {reason}"


def fake_mode() -> FakeTensorMode:
    """Return a mode for fake tensors in which data-dependent sizes are unknown instead of an error."""
    return FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a module is run while it is recorded."""

    inference: bool = True  # in inference mode, otherwise with autograd
    notes: tuple[str, ...] = ()
    most_ops: int | None = None
    clock: Clock | None = None
    train: bool = False
    symbolic_args: Callable[[], Arguments] | None = None  # called to get the arguments of the run


def record(
    module: torch.nn.Module,
    inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    mode: FakeTensorMode | None = None,
    most_ops: int | None = None,
    limit: TimeLimit | None = None,
    train: bool = False,
) -> Graph:
    """Return the graph of one inference of a module, or of one training forward. It is not modified."""
    module = unwrap(module)
    name = name or type(module).__name__
    _require_parameters(module, name)
    call_args = module_arguments(module, inputs, kwargs)
    mode = mode or fake_mode()
    clock = None if limit is None else limit.start()
    options = RunOptions(most_ops=most_ops, clock=clock, train=train)
    if has_nested(call_args):
        return _record_with_numbers(module, call_args, name, NeedsRealData(LENGTHS_ARE_DATA), options)
    try:
        graph = record_once(module, call_args, name, mode, options)
        return _with_real_sizes(graph, module, call_args, options)
    except SizeupError:
        raise
    except NEEDS_DATA as error:
        return _record_with_numbers(module, call_args, name, error, options)
    except _ANY_ERROR:
        pass  # some models use autograd in forward, which inference mode forbids
    try:
        return record_once(module, call_args, name, mode, replace(options, inference=False))
    except SizeupError:
        raise
    except _ANY_ERROR as error:
        # Code that reads tensor values (NumPy, formatting) can raise any exception.
        return _record_with_numbers(module, call_args, name, error, options)


def _require_parameters(module: torch.nn.Module, name: str) -> None:
    """Raise LoadError for a lazy module whose parameters have no shape before its first run."""
    for label, parameter in (*module.named_parameters(), *module.named_buffers()):
        if is_lazy(parameter):
            raise LoadError(
                f"{name}: {label} has no shape before the first run of its lazy module;"
                " call the module once on real data first"
            )


def _with_real_sizes(
    graph: Graph, module: torch.nn.Module, call_args: Arguments, options: RunOptions
) -> Graph:
    """Trace again with real data if sizes depend on data and all inputs are real tensors."""
    if not _depends_on_data(graph) or not has_values(call_args) or not _can_run(module):
        return graph
    try:
        return _record_with_numbers(module, call_args, graph.name, NeedsRealData(_DATA_DEPENDENT), options)
    except StateChanged:
        raise
    except SizeupError:
        return graph


def _depends_on_data(graph: Graph) -> bool:
    """Return whether a shape, or the number of stored elements or of scores of an op, is unknown."""
    return (
        any(tensor.shape is None for tensor in graph.tensors)
        or any("invalid" in op.attrs for op in graph.ops)
        or not BOUND_CAVEATS.isdisjoint(graph.notes)
    )


def _record_with_numbers(
    module: torch.nn.Module, call_args: Arguments, name: str, error: BaseException, options: RunOptions
) -> Graph:
    """Trace a copy of the module with real data. The last fallback."""
    reason = error_summary(error)
    if not _can_run(module):
        if not isinstance(error, NEEDS_DATA):
            raise LoadError(forward_error_text(name, module, call_args, error)) from error
        raise WeightsMissing(
            f"{name}: cannot be traced without weights: {reason};"
            " pass the module with its weights to trace it with real data"
        ) from error
    note = _REAL_RUN_NOTE.format(reason=reason)
    try:
        # A real run may update statistics and caches, so it uses copies.
        with preserve_state(module, call_args) as snapshot:
            copied, copied_args = copy_with_state((module, call_args))
            real_options = replace(options, most_ops=None, notes=(*options.notes, note))
            graph = record_once(copied, copied_args, name, None, real_options)
        snapshot.require_unwritten()
        return graph
    except SizeupError:
        raise
    except _ANY_ERROR as real_error:
        raise LoadError(forward_error_text(name, module, call_args, real_error)) from real_error


def record_once(
    module: torch.nn.Module,
    call_args: Arguments,
    name: str,
    mode: FakeTensorMode | None,
    options: RunOptions,
) -> Graph:
    """Record one run of a module.

    Raises StateChanged if a fake tensor of the run survives outside of the module and its arguments.
    """
    with without_gc() if mode else nullcontext(), leave_no_trace(mode, name, module, call_args):
        try:
            return _record_run(module, call_args, name, mode, options)
        except BaseException as error:
            keep_failure(error)
            raise


def _record_run(
    module: torch.nn.Module,
    call_args: Arguments,
    name: str,
    mode: FakeTensorMode | None,
    options: RunOptions,
) -> Graph:
    builder = GraphBuilder(name, "torch")
    recorder = Recorder(builder, mode, options.most_ops, options.clock)
    device, dtype = device_and_dtype(module)
    if options.symbolic_args is not None:
        call_args = options.symbolic_args()
    args, kwargs = prepare(call_args, device, dtype, mode)
    for label, leaf in named_leaves(module.forward, (args, kwargs)):
        tensor = plain_tensor(leaf)
        identity = builder.input(label, shape_of(tensor), dtype_of(tensor.dtype))
        recorder.name_tensor(tensor, identity)
    paths = list(module.named_modules())
    add_module_weights(recorder, module, paths)
    modules = [submodule for _, submodule in paths]
    recorder.preexisting = _attribute_tensors(modules)
    mode_text = mode_note(module, train=options.train)
    with ExitStack() as stack:
        stack.enter_context(run_mode(module, train=options.train))
        stack.enter_context(eager_execution())
        stack.enter_context(_without_dlpack() if mode else nullcontext())
        stack.enter_context(torch.inference_mode() if options.inference else torch.enable_grad())
        stack.enter_context(mode or nullcontext())
        stack.enter_context(module_scopes(paths, recorder.enter))
        stack.enter_context(NestedAttention() if has_nested(call_args) else nullcontext())
        stack.enter_context(recorder)
        result = module(*args, **kwargs)
    builder.outputs.extend(dict.fromkeys(map(recorder.identity, _output_tensors(result))))
    for note in (*options.notes, *([mode_text] if mode_text else ())):
        builder.note(note)
    builder.run = recorder.storages.run(len(builder.tensors), device.type)
    return builder.freeze()


def _attribute_tensors(modules: list[torch.nn.Module]) -> frozenset[int]:
    """Return the ids of tensors that are plain attributes of modules, or in lists of those."""
    values = [
        value for module in modules for value in vars(module).values() if type(value) not in _SKIPPED_TYPES
    ]
    values += [item for value in values if isinstance(value, SEQUENCES) for item in value]
    return frozenset(id(value) for value in values if isinstance(value, torch.Tensor))


# Common attribute types that are neither tensors nor lists of them.
_SKIPPED_TYPES = frozenset((bool, int, float, str, dict, OrderedDict, set, type(None)))


@contextmanager
def _without_dlpack() -> Iterator[None]:
    """Block DLPack: a library that receives a fake tensor would read at address 0."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise NeedsRealData("the model passes tensors to another library (DLPack)")

    targets = ((torch.Tensor, "__dlpack__"), (torch._C, "_to_dlpack"), (torch.utils.dlpack, "to_dlpack"))
    originals = [(owner, name, getattr(owner, name)) for owner, name in targets if hasattr(owner, name)]
    for owner, name, _ in originals:
        setattr(owner, name, refuse)
    try:
        yield
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)


@contextmanager
def eager_execution() -> Iterator[None]:
    """Disable torch.compile, its advice to use it, and torch's logging of errors that it also raises."""
    loggers = [logging.getLogger(name) for name in _NOISY_LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def unwrap(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module inside the wrappers of parallel training and torch.compile."""
    wrappers = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    while True:
        if isinstance(module, wrappers):
            module = module.module
        elif "_orig_mod" in module._modules:  # torch.compile's wrapper
            module = module._modules["_orig_mod"]  # type: ignore[assignment]
        else:
            return module


def device_and_dtype(module: torch.nn.Module) -> tuple[torch.device, torch.dtype]:
    """Return the device of the first parameter and the dtype of the first floating-point one."""
    device = None
    for parameter in module.parameters():
        device = device or parameter.device
        if parameter.dtype.is_floating_point:
            return device, parameter.dtype
    return device or torch.device("cpu"), torch.float32


def _can_run(module: torch.nn.Module) -> bool:
    """Return whether the module has real weights of at most REAL_RUN_BYTES."""
    tensors = [*module.parameters(), *module.buffers()]
    if any(isinstance(tensor, FakeTensor) or tensor.device.type == "meta" for tensor in tensors):
        return False
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors) <= REAL_RUN_BYTES


def _output_tensors(result: Any) -> list[torch.Tensor]:
    tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    if not tensors and hasattr(result, "__dict__"):
        tensors = [leaf for leaf in pytree.tree_leaves(vars(result)) if isinstance(leaf, torch.Tensor)]
    return list(map(plain_tensor, tensors))
