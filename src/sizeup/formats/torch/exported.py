"""The exported door: an ExportedProgram, or a .pt2 file, replayed through the same recorder."""

from __future__ import annotations

import contextlib
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from sizeup.errors import CorruptModel, LoadError, SymbolicDimension, UnboundDimension
from sizeup.formats.torch.eager import fake_mode
from sizeup.formats.torch.inputs import Arguments, empty, is_shape, plain_shape
from sizeup.formats.torch.record import Recorder
from sizeup.formats.torch.translate import dtype_of, shape_of
from sizeup.graph import Graph, GraphBuilder, Role

_ROLES: dict[InputKind, Role] = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}


def record_program(
    program: ExportedProgram,
    *,
    inputs: Any = None,
    bind: Mapping[str, int] | None = None,
    name: str = "",
    mode: FakeTensorMode | None = None,
    named: Mapping[tuple[str, int], Any] | None = None,
) -> Graph:
    """The graph of an exported program; free dimensions take their sizes from `inputs` or `bind`.

    Axes of inputs that are `named` have torch's symbols of that mode instead.
    """
    builder = GraphBuilder(name or "exported", "torch.export")
    mode = mode or fake_mode()
    recorder = Recorder(builder, mode)
    shapes = {
        each: tuple((named or {}).get((each, axis), size) for axis, size in enumerate(shape))
        for each, shape in _shapes(program, inputs, bind or {}).items()
    }
    arguments = _arguments(program, recorder, mode, shapes)
    _check_targets(program)
    replay = _Replay(program.graph_module, recorder)
    with torch.inference_mode(), mode, recorder:
        result = replay.run(*arguments)
    kept = len(result) - len(program.graph_signature.user_outputs)
    outputs = [each for each in result[kept:] if isinstance(each, torch.Tensor)]
    builder.outputs.extend(dict.fromkeys(recorder.identity(each) for each in outputs))
    # A program lets go of a value after its last use; what this replay holds is no measure of that.
    builder.run = recorder.holders.run(len(builder.tensors), deaths=False)
    return builder.freeze()


@dataclass(frozen=True, slots=True)
class Symbol:
    """A free dimension of a program: a size that it allows, and the axes of inputs that have it."""

    example: int
    places: tuple[tuple[str, int], ...]


def free_symbols(program: ExportedProgram) -> dict[str, Symbol]:
    """The free dimensions of a program, by the names that its own expressions have for them."""
    placeholders = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    found: dict[str, Symbol] = {}
    for name in program.graph_signature.user_inputs:
        value = placeholders.get(name) if isinstance(name, str) else None
        sizes: tuple[Any, ...] = tuple(value.shape) if isinstance(value, torch.Tensor) else ()
        for axis, size in enumerate(sizes):
            if type(size) is int or not size.node.expr.is_Symbol:
                continue
            known = found.get(str(size), Symbol(_example(program, size), ()))
            found[str(size)] = Symbol(known.example, (*known.places, (str(name), axis)))
    return found


def _example(program: ExportedProgram, size: Any) -> int:
    """A size within the limits of a program: the one that it was made with, where it still knows."""
    limits = program.range_constraints.get(size.node.expr)
    hint = size.node.hint if size.node.has_hint() else None
    return int(hint or max(2, int(limits.lower) if limits is not None else 2))


def with_arguments(
    program: ExportedProgram, inputs: Any, bind: Mapping[str, int]
) -> tuple[torch.nn.Module, Arguments]:
    """A program as a module that runs, and zeros of the sizes that it is to be run on."""
    _check_targets(program)
    shapes = _shapes(program, inputs, bind)
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    flat: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            value = values.get(spec.arg.name)
            if isinstance(value, torch.Tensor):
                flat.append(empty(shapes[spec.arg.name], torch.device("cpu"), value.dtype, None))
            else:
                flat.append(getattr(spec.arg, "value", value))
    args, kwargs = torch.utils._pytree.tree_unflatten(flat, program.call_spec.in_spec)
    return program.module(), (tuple(args), dict(kwargs))


class _Replay(torch.fx.Interpreter):
    """Runs the program node by node and tells the recorder to which module each belongs."""

    def __init__(self, module: torch.fx.GraphModule, recorder: Recorder) -> None:
        super().__init__(module)
        self.recorder = recorder

    def run_node(self, n: torch.fx.Node) -> Any:
        stack = n.meta.get("nn_module_stack")
        path = next(reversed(stack.values()))[0] if stack else ""
        # Torch writes repeated calls of one module as path@1, path@2.
        self.recorder.enter(re.sub(r"@\d+", "", path))
        return super().run_node(n)


def _arguments(
    program: ExportedProgram, recorder: Recorder, mode: FakeTensorMode, shapes: Mapping[str, tuple[int, ...]]
) -> list[Any]:
    held = {**program.state_dict, **program.constants}
    made: list[Any] = []
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        role = _ROLES.get(spec.kind)
        if role is not None and spec.target is not None:
            tensor = held[spec.target]
            recorder.add_shared_constant(spec.target, tensor, role)
            made.append(tensor)
        elif spec.kind is InputKind.USER_INPUT:
            made.append(_user_input(recorder, mode, spec.arg, values, shapes))
        else:
            made.append(held.get(spec.target))
    return made


def _user_input(
    recorder: Recorder,
    mode: FakeTensorMode,
    argument: Any,
    values: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
) -> Any:
    value = values.get(argument.name)
    if not isinstance(value, torch.Tensor):
        return getattr(argument, "value", value)
    tensor = empty(shapes[argument.name], torch.device(value.device.type), value.dtype, mode)
    identity = recorder.builder.input(argument.name, shape_of(tensor), dtype_of(tensor.dtype))
    recorder.name_tensor(tensor, identity)
    return tensor


def _shapes(program: ExportedProgram, inputs: Any, bind: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The size of every input; free dimensions are in `inputs`, or in `bind` as symbol or input.axis."""
    placeholders = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    names = [each for each in program.graph_signature.user_inputs if isinstance(each, str)]
    given = _given_shapes(names, inputs)
    shapes: dict[str, tuple[int, ...]] = {}
    missing: list[SymbolicDimension] = []
    places: list[str] = []
    used: set[str] = set()
    free: dict[str, set[int]] = {}  # sizes of symbols, which inputs may share
    for name in names:
        value = placeholders.get(name)
        if not isinstance(value, torch.Tensor):
            continue
        if name in given and len(given[name]) != len(value.shape):
            rank = len(value.shape)
            raise LoadError(f"input {name!r} has {rank} dimensions; {len(given[name])} were given")
        sizes: list[int] = []
        for axis, size in enumerate(value.shape):
            is_fixed = type(size) is int
            keys = {f"{name}.{axis}"} if is_fixed else {f"{name}.{axis}", str(size)}
            used |= keys & bind.keys()
            wanted = {bind[key] for key in keys & bind.keys()}
            wanted |= {given[name][axis]} if name in given else set()
            wanted |= {size} if is_fixed else free.get(str(size), set())
            if len(wanted) > 1:
                told = " and ".join(map(str, sorted(wanted)))
                raise LoadError(f"input {name!r} at axis {axis}: {told} at once; the program allows one size")
            if not wanted:
                missing.append(SymbolicDimension(f"{name}.{axis}", name, axis, len(value.shape)))
                places.append(f"{name}.{axis} (symbol {size})")
                continue
            sizes.append(*wanted)
            free.setdefault(str(size), set()).update(wanted)
        shapes[name] = tuple(sizes)
    unknown = sorted(set(bind) - used)
    if unknown:
        raise LoadError(
            f"no dimension is called {', '.join(unknown)}; free ones are {', '.join(places) or 'none'}"
        )
    if missing:
        words = f"free dimensions: {', '.join(places)}; bind each, as in --bind {missing[0].name}=1"
        raise UnboundDimension(words, tuple(missing))
    return shapes


def _given_shapes(names: list[str], inputs: Any) -> dict[str, tuple[int, ...]]:
    if inputs is None:
        return {}
    if isinstance(inputs, torch.Tensor) or is_shape(inputs):
        inputs = (inputs,)
    pairs = inputs.items() if isinstance(inputs, Mapping) else zip(names, inputs, strict=False)
    found = {}
    for name, value in pairs:
        if name not in names:
            raise LoadError(f"the program has no input {name!r}; its inputs are {', '.join(names)}")
        found[name] = plain_shape(value)
    return found


def _check_targets(program: ExportedProgram) -> None:
    """Only operators and Python's own arithmetic are called; a file may name any function it likes."""
    for node in program.graph.nodes:
        if node.op == "call_function" and not isinstance(
            node.target, torch._ops.OpOverload | torch._ops.HigherOrderOperator
        ):
            module = getattr(node.target, "__module__", "")
            if module not in ("_operator", "math", "torch.sym", "torch"):
                raise CorruptModel(f"the program calls {module}.{node.target}, which is no operator")


# Torch evaluates these strings as sympy code: only constructors (capital first letter) may be called,
# names may be quoted, and there is no attribute, no other string, no dunder.
_PLAIN_EXPRESSION = re.compile(
    r"(?!.*__)(?!.*\.\s*[A-Za-z_])(?!.*\b[a-z_]\w*\s*\()(?:'\w+'|[\w\s+\-*/%(),.<>=!&|~])*\Z", re.DOTALL
)


def load_program(path: Path) -> ExportedProgram:
    """Read a .pt2 file without ever loading a pickle or evaluating what it calls expressions."""
    try:
        _check_archive(path)
        with _tensors_only():
            program: ExportedProgram = torch.export.load(path)
    except LoadError:
        raise
    except Exception as error:
        summary = str(error).strip().partition("\n")[0]
        raise CorruptModel(f"{path}: not a readable .pt2 file: {type(error).__name__}: {summary}") from error
    return program


def _check_archive(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            base = entry.rpartition("/")[2]
            if base.startswith(("custom_obj", "opaque_obj")):
                raise LoadError(f"{path}: holds a pickled object ({base}), which is never loaded")
            if base.endswith(".json"):
                _check_json(path, json.loads(archive.read(entry)))


def _check_json(path: Path, content: Any) -> None:
    stack = [content]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item.values())
            if item.get("use_pickle"):
                raise LoadError(f"{path}: holds pickled weights, which are never loaded")
            expression = item.get("expr_str")
            if isinstance(expression, str) and not _PLAIN_EXPRESSION.match(expression):
                raise CorruptModel(f"{path}: {expression[:60]!r} is no plain expression")


@contextlib.contextmanager
def _tensors_only() -> Iterator[None]:
    """Torch's own switch that keeps torch.load from building anything but tensors."""
    switch = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(switch)
    os.environ[switch] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[switch]
        else:
            os.environ[switch] = before
