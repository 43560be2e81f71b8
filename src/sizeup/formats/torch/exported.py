"""Record exported programs, from an ExportedProgram or from a .pt2 file."""

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
from sizeup.formats.torch.eager import eager_execution, fake_mode
from sizeup.formats.torch.error_texts import own_statement
from sizeup.formats.torch.failures import error_summary
from sizeup.formats.torch.inputs import Arguments, empty
from sizeup.formats.torch.operators import dtype_of, shape_of
from sizeup.formats.torch.payloads import Payloads
from sizeup.formats.torch.record import Recorder, tensor_values
from sizeup.formats.torch.replay import Replay
from sizeup.formats.torch.serialized import SerializedProgram, decode, module_path
from sizeup.formats.torch.size_expressions import SizeExpression, parse_size
from sizeup.formats.torch.weights import Weight, add_weights
from sizeup.graph import Graph, GraphBuilder, Role

_ROLES: dict[InputKind, Role] = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}
_FIRST_EXAMPLE = 2  # torch specializes on size 1


class Program(Protocol):
    """A program that can be recorded."""

    @property
    def user_inputs(self) -> Sequence[UserInput]:
        """The user inputs, in order."""
        ...

    def example(self, symbol: str) -> int:
        """Return a size that the program allows for a symbol."""
        ...

    def arguments(
        self, recorder: Recorder, mode: FakeTensorMode, user_input: Callable[[str], Any]
    ) -> list[Any]:
        """Register the weights and return them with the user inputs, in the program's order."""
        ...

    def run(self, recorder: Recorder, arguments: Sequence[Any], symbols: Mapping[str, Any]) -> list[Any]:
        """Run the program under a recorder and return its user outputs."""
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
    """Return the graph of a program; `inputs` or `bind` set the sizes of symbolic dimensions.

    Symbols in `named` are replaced by these symbols of `mode` instead.
    """
    builder = GraphBuilder(name or "exported", "torch.export")
    mode = mode or fake_mode()
    recorder = Recorder(builder, mode)
    sizes = BoundSizes(program.user_inputs, inputs, bind or {})
    symbols = {**sizes.symbols, **(named or {})}
    inputs_by_name = {output.name: output for output in program.user_inputs}

    def user_input(name: str) -> Any:
        return _user_input(
            recorder,
            mode,
            inputs_by_name[name],
            sizes.sizes_of(inputs_by_name[name], symbols if named else None),
        )

    try:
        arguments = program.arguments(recorder, mode, user_input)
        with eager_execution(), torch.inference_mode(), mode, recorder:
            outputs = program.run(recorder, arguments, symbols)
    except SizeupError:
        raise
    # torch may raise any exception if the inputs do not match the program.
    except Exception as error:
        scope = f" in {recorder.scope}" if recorder.scope else ""
        reason = f"{error_summary(error)}; check the inputs"
        raise LoadError(f"{builder.name}: running the program failed{scope}: {reason}") from error
    tensors = [output for output in outputs if isinstance(output, torch.Tensor)]
    builder.outputs.extend(dict.fromkeys(recorder.identity(output) for output in tensors))
    # This replay keeps values alive longer than the program does, so deaths are not recorded.
    builder.run = recorder.storages.run(len(builder.tensors), deaths=False)
    return builder.freeze()


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbolic dimension of a program: an allowed size, and the input axes that have it."""

    example: int
    axes: tuple[tuple[str, int], ...]


def input_symbols(program: Program) -> dict[str, Symbol]:
    """Return the symbolic dimensions of a program's inputs by name."""
    symbols: dict[str, Symbol] = {}
    for name, sizes, *_ in program.user_inputs:
        for axis, size in enumerate(sizes or ()):
            if isinstance(size, SizeExpression) and size.is_symbol:
                known = symbols.get(size.text, Symbol(program.example(size.text), ()))
                symbols[size.text] = Symbol(known.example, (*known.axes, (name, axis)))
    return symbols


class FileProgram:
    """The program of a .pt2 file, decoded without torch.export.load."""

    def __init__(self, path: Path) -> None:
        archive = read_archive(path)
        try:
            self._program: SerializedProgram = decode(archive.program)
            self._payloads = Payloads(archive)
            self.user_inputs = [
                UserInput(program_input.name, None, value=program_input.value)
                if program_input.meta is None
                else UserInput(program_input.name, program_input.meta.sizes, program_input.meta.dtype)
                for program_input in self._program.inputs
                if program_input.role is None
            ]
        except LoadError as error:
            raise error.within(str(path)) from error
        self.path = path

    def example(self, symbol: str) -> int:
        """Return the size at export, or the lower limit of the symbol."""
        hint = self._program.hints.get(symbol)
        return hint or max(_FIRST_EXAMPLE, self._program.lower_limits.get(symbol, 0))

    def arguments(
        self, recorder: Recorder, mode: FakeTensorMode, user_input: Callable[[str], Any]
    ) -> list[Any]:
        """Return the weights as fake tensors, and the user inputs."""
        try:
            return self._arguments(recorder, mode, user_input)
        except LoadError as error:
            raise error.within(str(self.path)) from error

    def _arguments(
        self, recorder: Recorder, mode: FakeTensorMode, user_input: Callable[[str], Any]
    ) -> list[Any]:
        weights: dict[str, Weight] = {}
        for program_input in self._program.inputs:
            if program_input.role is not None:
                tensor, read = self._payloads.tensor(program_input, mode)
                weights[program_input.name] = Weight(program_input.target, tensor, program_input.role, read)
        add_weights(recorder, weights.values())
        return [
            user_input(program_input.name)
            if program_input.role is None
            else weights[program_input.name].tensor
            for program_input in self._program.inputs
        ]

    def run(self, recorder: Recorder, arguments: Sequence[Any], symbols: Mapping[str, Any]) -> list[Any]:
        """Run the nodes in order."""
        try:
            results = Replay(recorder, symbols).run(self._program.graph, arguments)
        except LoadError as error:
            raise error.within(str(self.path)) from error
        for note in self._payloads.notes:
            recorder.builder.note(note)
        return [results[index] for index in self._program.user_outputs]


class TorchProgram:
    """An ExportedProgram passed by the caller."""

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
        sizes = tuple(size if type(size) is int else self._expression(size) for size in value.shape)
        return UserInput(argument.name, sizes, value.dtype)

    def _expression(self, size: Any) -> SizeExpression:
        expression = parse_size(str(size))
        self._sizes[expression.text] = size
        return expression

    def example(self, symbol: str) -> int:
        """Return the size at export, or the lower limit of the symbol."""
        size = self._sizes[symbol]
        limits = self._program.range_constraints.get(size.node.expr)
        hint = size.node.hint if size.node.has_hint() else None
        return int(hint or max(_FIRST_EXAMPLE, int(limits.lower) if limits is not None else 0))

    def arguments(
        self, recorder: Recorder, mode: FakeTensorMode, user_input: Callable[[str], Any]
    ) -> list[Any]:
        """Return the weights and the user inputs."""
        values = {**self._program.state_dict, **self._program.constants}
        weights: dict[str, Weight] = {}
        for spec in self._program.graph_signature.input_specs:
            role = _ROLES.get(spec.kind)
            if role is not None and spec.target is not None:
                value = values[spec.target]
                tensor = _to_fake(value, role, mode)
                read = partial(tensor_values, value)
                weights[spec.arg.name] = Weight(spec.target, tensor, role, read, value)
        add_weights(recorder, weights.values())
        return [
            weights[spec.arg.name].tensor
            if spec.arg.name in weights
            else user_input(spec.arg.name)
            if spec.kind is InputKind.USER_INPUT
            else values.get(spec.target or "")
            for spec in self._program.graph_signature.input_specs
        ]

    def run(self, recorder: Recorder, arguments: Sequence[Any], symbols: Mapping[str, Any]) -> list[Any]:
        """Run the program with torch.fx.Interpreter."""
        del symbols  # the nodes compute them
        result = _ScopedInterpreter(self._program.graph_module, recorder).run(*arguments)
        return list(result[len(result) - len(self._program.graph_signature.user_outputs) :])


def _to_fake(weight: torch.Tensor, role: Role, mode: FakeTensorMode) -> torch.Tensor:
    """Return a weight as a fake tensor; a scalar constant, which may be a size, keeps its value."""
    return weight if role == "constant" and weight.numel() <= 1 else mode.from_tensor(weight)


class _ScopedInterpreter(torch.fx.Interpreter):
    """Sets the recorder's scope to the module of each node."""

    def __init__(self, module: torch.fx.GraphModule, recorder: Recorder) -> None:
        super().__init__(module)
        self.recorder = recorder

    def run_node(self, n: torch.fx.Node) -> Any:
        stack = n.meta.get("nn_module_stack")
        self.recorder.enter(module_path(next(reversed(stack.values()))[0] if stack else ""))
        return super().run_node(n)


def _user_input(recorder: Recorder, mode: FakeTensorMode, spec: UserInput, sizes: tuple[Any, ...]) -> Any:
    if spec.sizes is None:
        return sizes[0] if sizes else spec.value
    assert spec.dtype is not None
    # A program exported for a GPU is recorded on the CPU.
    tensor = empty(sizes, torch.device("cpu"), spec.dtype, mode)
    identity = recorder.builder.input(spec.name, shape_of(tensor), dtype_of(tensor.dtype))
    recorder.name_tensor(tensor, identity)
    return tensor


def load_trusted(path: Path) -> ExportedProgram:
    """Load a trusted .pt2 file with torch, which may execute code stored in it."""
    try:
        program: ExportedProgram = torch.export.load(path)
    except Exception as error:
        raise CorruptModel(
            f"{path}: not a readable .pt2 file: {own_statement(str(error)) or type(error).__name__}"
        ) from error
    return program


def with_arguments(
    program: ExportedProgram, inputs: Any, bind: Mapping[str, int]
) -> tuple[torch.nn.Module, Arguments]:
    """Return a program as a runnable module, and zeros as its inputs."""
    user_inputs = TorchProgram(program).user_inputs
    sizes = BoundSizes(user_inputs, inputs, bind)
    flat = [
        (*sizes.sizes_of(user_input), user_input.value)[0]
        if user_input.sizes is None
        else empty(sizes.sizes_of(user_input), torch.device("cpu"), user_input.dtype or torch.float32, None)
        for user_input in user_inputs
    ]
    args, kwargs = torch.utils._pytree.tree_unflatten(flat, program.call_spec.in_spec)
    return program.module(), (tuple(args), dict(kwargs))
