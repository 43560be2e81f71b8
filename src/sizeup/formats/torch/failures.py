"""Errors of a model's run as one plain statement: which module, which operator, which shapes, what to do."""

from __future__ import annotations

import difflib
import dis
import inspect
import linecache
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from sizeup.formats.torch.error_texts import (
    DEVICES,
    NO_DATA,
    NO_GPU,
    NO_MEMORY,
    own_statement,
    plain_statement,
)
from sizeup.formats.torch.inputs import Arguments, is_shape, plain_shape
from sizeup.formats.torch.operators import Operator

_TORCH = Path(torch.__file__).parent
_SIZEUP = Path(__file__).parents[2]
_MOST_SHAPES = 4
_KEPT = "_sizeup_failure"  # attribute of an exception
_NO_INPUTS = "pass inputs: --input 1x3x224x224 or inputs=((1, 3, 224, 224),)"


class NeedsRealData(Exception):
    """An operator cannot run on fake tensors."""


NEEDS_DATA = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    GuardOnDataDependentSymNode,
    NeedsRealData,
)
"""Raised if an operator needs real data or a real kernel."""


def described(error: BaseException) -> str:
    """The type and the text of an error of a user's code, without tensor values."""
    text = own_statement(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def reason_of(error: BaseException) -> str:
    """The reason of an error as plain text."""
    return Failure.of(error).reason


def error_summary(error: BaseException) -> str:
    """The place and the reason of an error in a model's run, as plain text."""
    failure = Failure.of(error)
    return f"{failure.place}: {failure.reason}" if failure.place else failure.reason


def forward_error_text(name: str, module: torch.nn.Module, call_args: Arguments, error: BaseException) -> str:
    """The message for a module that fails on its inputs."""
    mismatch = _signature_mismatch(module, call_args) if isinstance(error, TypeError) else ""
    if mismatch:
        return f"{name}: {mismatch}"
    failure = Failure.of(error)
    message = f"{name}: forward failed on {_describe(call_args)}: {error_summary(error)}"
    if not any(call_args):
        return f"{message}; {_NO_INPUTS}"
    return f"{message}; {_advice(failure, module, call_args)}"


@dataclass(frozen=True, slots=True)
class Failure:
    """Where a run failed (empty if not known), and why."""

    module: str  # its path and class
    call: str  # the operator and the shapes of its operands
    line: str  # file and line, of an error outside of torch
    reason: str
    is_installed: bool = False  # whether that file belongs to an installed package

    @property
    def place(self) -> str:
        """Module, operator and line as text."""
        parts = [f"in {self.module}" if self.module else "", self.call, self.line]
        return ", ".join(part for part in parts if part)

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The failure that an error of a run reports."""
        kept = vars(error).get(_KEPT)
        if isinstance(kept, Failure):
            return kept
        frames = list(_frames(error.__traceback__))
        calls = [call for frame, _, _ in frames if (call := _call(frame))]
        raised = next((item for item in reversed(frames) if not _is_within(item[0], _SIZEUP)), None)
        is_own = raised is not None and not _is_within(raised[0], _TORCH)
        line = ""
        if raised is not None and is_own:
            line = f"line {raised[2]} of {Path(raised[0].f_code.co_filename).name}"
        is_raised = raised is not None and is_own and _is_raise(raised[0], raised[1])
        is_installed = raised is not None and "site-packages" in raised[0].f_code.co_filename
        call = calls[-1] if calls else ""
        return cls(_module(frames), call, line, _reason(error, raised, is_raised), is_installed)


def keep_failure(error: BaseException) -> None:
    """Keep the failure that an error reports, before the variables of its frames are cleared."""
    vars(error)[_KEPT] = Failure.of(error)


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int, int]]:
    """The frames of a traceback, each with its last instruction and its line, the innermost last."""
    while trace is not None:
        yield trace.tb_frame, trace.tb_lasti, trace.tb_lineno
        trace = trace.tb_next


def _is_within(frame: FrameType, package: Path) -> bool:
    return Path(frame.f_code.co_filename).is_relative_to(package)


def _is_raise(frame: FrameType, instruction: int) -> bool:
    """Whether a frame raised the error itself, by raise or assert."""
    code = frame.f_code.co_code
    return 0 <= instruction < len(code) and dis.opname[code[instruction]] in ("RAISE_VARARGS", "RERAISE")


def _module(frames: list[tuple[FrameType, int, int]]) -> str:
    """The path and the class of the innermost module that ran."""
    owners = [frame.f_locals.get("self") for frame, _, _ in frames]
    # By the type: a configuration may fail if asked for its class.
    modules: list[Any] = [each for each in owners if issubclass(type(each), torch.nn.Module)]
    if not modules:
        return ""
    path = ""
    with suppress(AttributeError):  # a module that is still being constructed
        path = next((path for path, module in modules[0].named_modules() if module is modules[-1]), "")
    kind = type(modules[-1]).__name__
    return f"{path} ({kind})" if path else kind


def _call(frame: FrameType) -> str:
    """The operator that a recorder ran in a frame, with the shapes of its operands; else empty."""
    operator = frame.f_locals.get("operator")
    if frame.f_code.co_name != "__torch_dispatch__" or not isinstance(operator, Operator):
        return ""
    values = pytree.tree_leaves((frame.f_locals.get("args"), frame.f_locals.get("kwargs")))
    shapes = [_sizes(value.shape) for value in values if isinstance(value, torch.Tensor)]
    more = [f"{len(shapes) - _MOST_SHAPES:,} more"] if len(shapes) > _MOST_SHAPES else []
    listed = ", ".join([*shapes[:_MOST_SHAPES], *more])
    name = operator.name.lstrip("_")
    return f"{name} of {listed}" if listed else name


def _sizes(shape: Any) -> str:
    return "x".join(map(str, shape)) or "a scalar"


def _reason(error: BaseException, raised: tuple[FrameType, int, int] | None, is_raised: bool) -> str:
    if isinstance(error, NEEDS_DATA):
        return _data_reason(error)
    if isinstance(error, RecursionError):
        return "the model calls itself without end"
    if isinstance(error, MemoryError):
        return NO_MEMORY
    if isinstance(error, AssertionError) and not str(error) and raised is not None:
        statement = linecache.getline(raised[0].f_code.co_filename, raised[2]).strip()
        return f"{statement} failed" if statement.startswith("assert ") else "an assertion failed"
    if is_raised or not isinstance(error, _TORCH_ERRORS):
        return described(error)
    return plain_statement(str(error))


# Types of torch's own errors.
_TORCH_ERRORS = (RuntimeError, TypeError, IndexError, ValueError, AssertionError)


def _data_reason(error: BaseException) -> str:
    operator = getattr(error, "func", None)
    name = str(operator).removeprefix("aten.").partition(".")[0] if operator is not None else "an operator"
    if isinstance(error, NeedsRealData):
        return str(error)
    if isinstance(error, DynamicOutputShapeException):
        return f"the output size of {name} depends on tensor values"
    if isinstance(error, UnsupportedOperatorException | UnsupportedFakeTensorException):
        return f"{name} cannot run without data" if operator is not None else NO_DATA
    return "the code depends on tensor values"


def _advice(failure: Failure, module: torch.nn.Module, call_args: Arguments) -> str:
    if failure.reason == DEVICES:
        return "create tensors on the device of the input: device=x.device"
    if failure.reason == NO_GPU:
        return "remove .cuda() and .to('cuda') from the code"
    if "integers" in failure.reason:
        return f"check the inputs: give token ids as integers, {_as_integers(module, call_args)}"
    if "has no kernel" in failure.reason:
        return "register a kernel for it, or torch.library.register_fake, before the model is loaded"
    if failure.reason == NO_MEMORY:
        return "check the inputs: their sizes may be wrong"
    return f"check the inputs{' and the code of the model' * bool(failure.line and not failure.is_installed)}"


def _as_integers(module: torch.nn.Module, call_args: Arguments) -> str:
    """How to give the first input as integers."""
    args, kwargs = call_args
    name = next(iter((*_parameters(module), *kwargs)), "x")
    value = next(iter((*args, *kwargs.values())), None)
    is_sized = isinstance(value, torch.Tensor) or is_shape(value)
    shape = plain_shape(value) if is_sized else (1, 128)
    return f"--input {name}:{_sizes(shape)}:int64 or inputs={{{name!r}: ({shape}, 'int64')}}"


def _parameters(module: torch.nn.Module) -> list[str]:
    try:
        return list(inspect.signature(module.forward).parameters)
    except (TypeError, ValueError):
        return []


def _signature_mismatch(module: torch.nn.Module, call_args: Arguments) -> str:
    """How the inputs differ from the parameters of forward; empty if they agree."""
    args, kwargs = call_args
    try:
        signature = inspect.signature(module.forward)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        pass
    else:
        return ""
    parameters = signature.parameters.values()
    positional = [each for each in parameters if each.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
    listed = f"forward({', '.join(map(str, (each.name for each in parameters)))})"
    unknown = [name for name in kwargs if name not in signature.parameters]
    if unknown:
        near = difflib.get_close_matches(unknown[0], list(signature.parameters), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"{listed} has no input {unknown[0]!r}{hint}"
    if len(args) > len(positional):
        return f"{listed} takes {len(positional)} inputs, {len(args)} were given"
    required = [each.name for each in parameters if each.default is each.empty and each in positional]
    missing = [name for name in required[len(args) :] if name not in kwargs]
    if not any(call_args):
        return f"{listed} needs {', '.join(missing)}; {_NO_INPUTS}"
    names = f"{', '.join(map(repr, missing))}"
    return f"{listed} also needs {names}; add --input {missing[0]}:SHAPE or {missing[0]!r} to inputs" * bool(
        missing
    )


def _describe(call_args: Arguments) -> str:
    args, kwargs = call_args
    parts = [*map(_value, args), *(f"{key}={_value(value)}" for key, value in kwargs.items())]
    return ", ".join(parts) or "no inputs"


def _value(value: Any) -> str:
    """An argument without its content: the shape of a tensor, a number, or the type."""
    if isinstance(value, torch.Tensor) or is_shape(value):
        dtype = value[1] if not isinstance(value, torch.Tensor) and isinstance(value[-1], str) else ""
        return f"{_sizes(plain_shape(value))} {dtype}".strip()
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    return f"a {type(value).__name__}"
