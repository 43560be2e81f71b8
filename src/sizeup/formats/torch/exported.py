"""Exported programs: those that the caller holds, and those in a .pt2 file, through one recorder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from sizeup.errors import CorruptModel, LoadError, SizeupError
from sizeup.formats.torch.archive import read_archive
from sizeup.formats.torch.bound_sizes import BoundSizes, UserInput
from sizeup.formats.torch.eager import fake_mode, plain_execution, summary
from sizeup.formats.torch.inputs import Arguments, empty
from sizeup.formats.torch.payloads import Payloads
from sizeup.formats.torch.record import Recorder, numbers
from sizeup.formats.torch.replay import Replay
from sizeup.formats.torch.serialized import SerializedProgram, decode, module_path
from sizeup.formats.torch.size_expressions import SizeExpression, parse_size
from sizeup.formats.torch.translate import dtype_of, shape_of
from sizeup.graph import Graph, GraphBuilder, Role

_ROLES: dict[InputKind, Role] = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}
_FIRST_EXAMPLE = 2  # at 1, torch decides much otherwise


class Program(Protocol):
    """A program as the recorder needs it, wherever it comes from."""

    @property
    def user_inputs(self) -> Sequence[UserInput]:
        """The inputs that the caller gives, in order."""
        ...

    def example(self, symbol: str) -> int:
        """A size that the program allows for a symbol."""
        ...

    def arguments(
        self, recorder: Recorder, mode: FakeTensorMode, user_input: Callable[[str], Any]
    ) -> list[Any]:
        """Weights, registered with the recorder, and the user inputs, in the order of the program."""
        ...

    def run(self, recorder: Recorder, arguments: Sequence[Any], symbols: Mapping[str, Any]) -> list[Any]:
        """Run it under a recorder; returns what its user gets."""
        ...


def record_program(
    program: Program,
    *,
    inputs: Any = None,
    bind: Mapping[str, int] | None = None,
    name: str = "",
    mode: FakeTensorMode | None = None,
    named: Mapping[str, Any] | None = None,
) -> Graph:
    """The graph of a program; symbolic dimensions take their sizes from `inputs` or `bind`.

    Symbols that are `named` stand for torch's symbols of that mode instead.
    """
    builder = GraphBuilder(name or "exported", "torch.export")
    mode = mode or fake_mode()
    recorder = Recorder(builder, mode)
    sizes = BoundSizes(program.user_inputs, inputs, bind or {})
    symbols = {**sizes.symbols, **(named or {})}
    given = {each.name: each for each in program.user_inputs}

    def user_input(name: str) -> Any:
        return _user_input(recorder, mode, given[name], sizes.of(given[name], symbols if named else None))

    try:
        arguments = program.arguments(recorder, mode, user_input)
        with plain_execution(), torch.inference_mode(), mode, recorder:
            outputs = program.run(recorder, arguments, symbols)
    except SizeupError:
        raise
    # Torch raises anything on a program that does not suit its inputs.
    except Exception as error:
        what = f"{type(error).__name__}: {summary(error)}"
        raise LoadError(f"{builder.name}: the program failed on its inputs: {what}") from error
    tensors = [each for each in outputs if isinstance(each, torch.Tensor)]
    builder.outputs.extend(dict.fromkeys(recorder.identity(each) for each in tensors))
    # A program lets go of a value after its last use; what this replay holds is no measure of that.
    builder.run = recorder.holders.run(len(builder.tensors), deaths=False)
    return builder.freeze()


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbolic dimension of a program: a size that it allows, and the axes of inputs that have it."""

    example: int
    places: tuple[tuple[str, int], ...]


def free_symbols(program: Program) -> dict[str, Symbol]:
    """The symbolic dimensions of a program's inputs, by their own names."""
    symbols: dict[str, Symbol] = {}
    for name, sizes, *_ in program.user_inputs:
        for axis, size in enumerate(sizes or ()):
            if isinstance(size, SizeExpression) and size.is_symbol:
                known = symbols.get(size.text, Symbol(program.example(size.text), ()))
                symbols[size.text] = Symbol(known.example, (*known.places, (name, axis)))
    return symbols


class FileProgram:
    """The program of a .pt2 file, which torch never opens."""

    def __init__(self, path: Path) -> None:
        archive = read_archive(path)
        try:
            self._program: SerializedProgram = decode(archive.program)
            self._payloads = Payloads(archive)
            self.user_inputs = [
                UserInput(each.name, None, value=each.value)
                if each.meta is None
                else UserInput(each.name, each.meta.sizes, each.meta.dtype)
                for each in self._program.inputs
                if each.role is None
            ]
        except LoadError as error:
            raise error.within(str(path)) from error
        self.path = path

    def example(self, symbol: str) -> int:
        """The size that it was exported with, or the least that it allows."""
        hint = self._program.hints.get(symbol)
        return hint or max(_FIRST_EXAMPLE, self._program.lower_limits.get(symbol, 0))

    def arguments(
        self, recorder: Recorder, mode: FakeTensorMode, user_input: Callable[[str], Any]
    ) -> list[Any]:
        """Weights without content, and what the user gives."""
        try:
            return self._arguments(recorder, mode, user_input)
        except LoadError as error:
            raise error.within(str(self.path)) from error

    def _arguments(
        self, recorder: Recorder, mode: FakeTensorMode, user_input: Callable[[str], Any]
    ) -> list[Any]:
        arguments = []
        for each in self._program.inputs:
            if each.role is None:
                arguments.append(user_input(each.name))
            else:
                tensor, read = self._payloads.tensor(each, mode)
                recorder.add_shared_constant(each.target, tensor, each.role, read)
                arguments.append(tensor)
        return arguments

    def run(self, recorder: Recorder, arguments: Sequence[Any], symbols: Mapping[str, Any]) -> list[Any]:
        """Run its operators one by one."""
        try:
            results = Replay(recorder, symbols).run(self._program.graph, arguments)
        except LoadError as error:
            raise error.within(str(self.path)) from error
        for note in self._payloads.notes:
            recorder.builder.note(note)
        return [results[place] for place in self._program.user_outputs]


class TorchProgram:
    """An ExportedProgram that the caller holds."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
        self._sizes: dict[str, Any] = {}
        self.user_inputs = [
            self._user_input(spec.arg)
            for spec in program.graph_signature.input_specs
            if spec.kind is InputKind.USER_INPUT
        ]

    def _user_input(self, argument: Any) -> UserInput:
        value = self._values.get(argument.name)
        if not isinstance(value, torch.Tensor):
            plain = getattr(argument, "value", value)
            is_size = isinstance(plain, torch.SymInt)
            return UserInput(argument.name, None, value=self._expression(plain) if is_size else plain)
        sizes = tuple(each if type(each) is int else self._expression(each) for each in value.shape)
        return UserInput(argument.name, sizes, value.dtype)

    def _expression(self, size: Any) -> SizeExpression:
        expression = parse_size(str(size))
        self._sizes[expression.text] = size
        return expression

    def example(self, symbol: str) -> int:
        """The size that it was exported with, or the least that it allows."""
        size = self._sizes[symbol]
        limits = self._program.range_constraints.get(size.node.expr)
        hint = size.node.hint if size.node.has_hint() else None
        return int(hint or max(_FIRST_EXAMPLE, int(limits.lower) if limits is not None else 0))

    def arguments(
        self, recorder: Recorder, mode: FakeTensorMode, user_input: Callable[[str], Any]
    ) -> list[Any]:
        """Its own weights, and what the user gives."""
        weights = {**self._program.state_dict, **self._program.constants}
        arguments: list[Any] = []
        for spec in self._program.graph_signature.input_specs:
            role = _ROLES.get(spec.kind)
            if role is not None and spec.target is not None:
                weight = weights[spec.target]
                tensor = _without_content(weight, role, mode)
                recorder.add_shared_constant(spec.target, tensor, role, partial(numbers, weight))
                arguments.append(tensor)
            elif spec.kind is InputKind.USER_INPUT:
                arguments.append(user_input(spec.arg.name))
            else:
                arguments.append(weights.get(spec.target or ""))
        return arguments

    def run(self, recorder: Recorder, arguments: Sequence[Any], symbols: Mapping[str, Any]) -> list[Any]:
        """Run it by torch's own interpreter."""
        del symbols  # its nodes compute them
        result = _Replay(self._program.graph_module, recorder).run(*arguments)
        return list(result[len(result) - len(self._program.graph_signature.user_outputs) :])


def _without_content(weight: torch.Tensor, role: Role, mode: FakeTensorMode) -> torch.Tensor:
    """A weight as the tensors of a file are, except for a constant whose one number may be a size."""
    return weight if role == "constant" and weight.numel() <= 1 else mode.from_tensor(weight)


class _Replay(torch.fx.Interpreter):
    """Runs the program node by node and tells the recorder to which module each belongs."""

    def __init__(self, module: torch.fx.GraphModule, recorder: Recorder) -> None:
        super().__init__(module)
        self.recorder = recorder

    def run_node(self, n: torch.fx.Node) -> Any:
        stack = n.meta.get("nn_module_stack")
        self.recorder.enter(module_path(next(reversed(stack.values()))[0] if stack else ""))
        return super().run_node(n)


def _user_input(recorder: Recorder, mode: FakeTensorMode, given: UserInput, sizes: tuple[Any, ...]) -> Any:
    if given.sizes is None:
        return sizes[0] if sizes else given.value
    assert given.dtype is not None
    # A program for a GPU is read on any machine.
    tensor = empty(sizes, torch.device("cpu"), given.dtype, mode)
    identity = recorder.builder.input(given.name, shape_of(tensor), dtype_of(tensor.dtype))
    recorder.name_tensor(tensor, identity)
    return tensor


def load_trusted(path: Path) -> ExportedProgram:
    """The program of a file that its user trusts: torch runs code that such a file may hold."""
    try:
        program: ExportedProgram = torch.export.load(path)
    except Exception as error:
        raise CorruptModel(
            f"{path}: not a readable .pt2 file: {type(error).__name__}: {summary(error)}"
        ) from error
    return program


def with_arguments(
    program: ExportedProgram, inputs: Any, bind: Mapping[str, int]
) -> tuple[torch.nn.Module, Arguments]:
    """A program as a module that runs, and zeros of the sizes that it is to be run on."""
    user_inputs = TorchProgram(program).user_inputs
    sizes = BoundSizes(user_inputs, inputs, bind)
    flat = [
        (*sizes.of(each), each.value)[0]
        if each.sizes is None
        else empty(sizes.of(each), torch.device("cpu"), each.dtype or torch.float32, None)
        for each in user_inputs
    ]
    args, kwargs = torch.utils._pytree.tree_unflatten(flat, program.call_spec.in_spec)
    return program.module(), (tuple(args), dict(kwargs))
