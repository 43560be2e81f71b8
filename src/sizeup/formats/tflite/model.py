"""Builds a Graph per subgraph of a .tflite file."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sizeup import units
from sizeup.errors import CorruptModel, InvalidGraph
from sizeup.formats.external import ModelFolders
from sizeup.formats.tflite import lowering as _lowering  # noqa: F401 - importing registers the lowerings
from sizeup.formats.tflite.constants import Constants
from sizeup.formats.tflite.inferred_shapes import InferredShapes
from sizeup.formats.tflite.node import LOWERINGS, Context, Node
from sizeup.formats.tflite.operators import operator_of
from sizeup.formats.tflite.schema import (
    BYTES_PER_OPERATOR_RUN,
    MAX_NESTING,
    MAX_OPERATORS_RUN,
    FileLimits,
    numbers,
    operator_names,
    schema,
)
from sizeup.formats.tflite.shapes import DynamicShapes, mismatch
from sizeup.formats.tflite.tensors import TensorReader
from sizeup.graph import ABSENT, Constant, Graph, Op, Tensor, check
from sizeup.ops import OpRule, cost_rule_of, op_kind_of

_SCHEMA_VERSION = 3
_DERIVED = Constant("derived")
# Scopes that TensorFlow's converter adds around the names of the model.
_WRAPPERS = frozenset(("StatefulPartitionedCall", "PartitionedCall"))


@dataclass(frozen=True, slots=True)
class OperatorCode:
    """An operator code of the file: its name, op kind and lowering."""

    source: str
    kind: str
    lower: Callable[[Node], None] | None
    computes: bool  # its cost rule needs an input and an output
    is_custom: bool = False


class Model(Context):
    """A file and the graphs built from its subgraphs so far."""

    def __init__(self, content: memoryview, name: str, home: ModelFolders) -> None:
        self.root = schema().Model.GetRootAs(content)
        if self.root.Version() != _SCHEMA_VERSION:
            raise CorruptModel(
                f"{name}: schema version {self.root.Version()} is not supported (only {_SCHEMA_VERSION})"
            )
        limits = FileLimits(name, len(content))
        super().__init__(limits, Constants(self.root, content, limits, home))
        self.codes = [self._code(index) for index in range(limits.length(self.root.OperatorCodesLength()))]
        self.subgraphs = limits.length(self.root.SubgraphsLength())
        # What LiteRT makes in place of recorded outputs, as sentences.
        self.recomputed: list[str] = []
        self._graphs: dict[int, Graph] = {}
        self._run_counts: dict[int, int] = {}  # operators executed per run of a subgraph, callees included
        # Subgraphs being read, and the operators of their callees so far.
        self._in_progress: dict[int, int] = {}

    def graph(self, index: int) -> Graph:
        """The graph of a subgraph, built on first use."""
        if not 0 <= index < self.subgraphs:
            raise CorruptModel(f"{self.name}: it calls subgraph {index} of {self.subgraphs} subgraphs")
        if index in self._in_progress:
            raise CorruptModel(f"{self.name}: subgraph {index} calls itself")
        if len(self._in_progress) >= MAX_NESTING:
            raise CorruptModel(f"{self.name}: subgraphs nested deeper than {MAX_NESTING}")
        if index not in self._graphs:
            self._in_progress[index] = 0
            graph = self._graphs[index] = _build(self, index)
            self._run_counts[index] = len(graph.ops) + self._in_progress.pop(index)
        if self._in_progress:
            self._count_run(self._run_counts[index])
        return self._graphs[index]

    def _count_run(self, operators: int) -> None:
        """Raise CorruptModel if nested subgraph calls execute too many operators."""
        caller = next(reversed(self._in_progress))
        self._in_progress[caller] += operators
        if self._in_progress[caller] > max(MAX_OPERATORS_RUN, self.limits.size // BYTES_PER_OPERATOR_RUN):
            raise CorruptModel(f"{self.name}: nested subgraph calls execute too many operators")

    def unreached(self) -> list[int]:
        """The subgraphs that no graph built so far calls."""
        return [index for index in range(self.subgraphs) if index not in self._graphs]

    def _code(self, index: int) -> OperatorCode:
        code = self.root.OperatorCodes(index)
        # Codes up to 127 may be in either field, larger codes only in the newer one.
        builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        names = operator_names()
        is_custom = builtin == schema().BuiltinOperator.CUSTOM
        if is_custom:
            source = self.limits.label(code.CustomCode()) or "CUSTOM"
            op_kind = None if source in names.values() else op_kind_of("tflite", source)
        else:
            source = names.get(builtin, f"BUILTIN_{builtin}")
            op_kind = op_kind_of("tflite", source)
        if op_kind is None:
            return OperatorCode(source, _unknown_kind(source), None, False, is_custom)
        rule = cost_rule_of(op_kind)
        computes = rule is not None and (rule.macs is not None or rule.elementwise is not None)
        return OperatorCode(source, op_kind, LOWERINGS.get(source), computes, is_custom)


def _unknown_kind(source: str) -> str:
    """The op kind of an unknown operator: its name, with a prefix if a cost rule has the same name."""
    rule = cost_rule_of(source)
    return source if rule is None or rule.family == "own" else f"custom:{source}"


def _build(model: Model, index: int) -> Graph:
    """The graph of one subgraph; tensor ids are those of the file."""
    table = model.root.Subgraphs(index)
    inputs, outputs = numbers(table.InputsAsNumpy()), numbers(table.OutputsAsNumpy())
    tensors: list[Tensor] = []
    nodes, lowerings = _nodes(model, table, tensors)
    computed = set(inputs).union(*(node.outputs for node in nodes))
    states = _initial_states(model, nodes, is_main=index == 0)
    used = set().union(*(node.inputs for node in nodes))
    reader = TensorReader(model, table, _weights(nodes, inputs), states, computed, used)
    _check_ids(model, nodes, inputs, outputs, reader.count)
    tensors += reader.read()
    if index == 0:
        _note_open_inputs(model, inputs, tensors, reader.open)
    _note_scratch(model, nodes, tensors)
    dynamic_shapes = DynamicShapes(tensors, reader.open) if reader.open else None
    inferred_shapes = InferredShapes(tensors, reader.open) if reader.open else None
    derived = _DerivedConstants(tensors)
    ops = []
    for position, (node, lower) in enumerate(zip(nodes, lowerings, strict=True)):
        if lower is not None:
            lower(node)
        if dynamic_shapes is not None:
            dynamic_shapes.follow(node)
        if inferred_shapes is not None:
            inferred_shapes.follow(node)
        _check_recorded_shapes(model, node)
        derived.follow(node)
        ops.append(_op(node, position))
    name = model.limits.label(table.Name()) or f"subgraph {index}"
    replaced = {} if inferred_shapes is None else inferred_shapes.replaced
    graph = Graph(
        tuple(tensors), tuple(ops), tuple(inputs), tuple(outputs), name, "tflite", recorded_shapes=replaced
    )
    try:
        check(graph)
    except InvalidGraph as error:
        raise CorruptModel(f"{model.name}: {error}") from error
    return graph


def placeholder_sizes(model: Model, tensors: Sequence[Tensor], shaped: Container[int]) -> Iterator[str]:
    """Inputs, except those in `shaped`, of which more than the batch is dynamic, and recorded as 1.

    A converter records 1 for every size that it does not know.
    """
    table = model.root.Subgraphs(0)
    for identity in numbers(table.InputsAsNumpy()):
        signature = numbers(table.Tensors(identity).ShapeSignatureAsNumpy())
        tensor, recorded = tensors[identity], tensors[identity].shape or ()
        if identity in shaped or len(signature) != len(recorded):
            continue
        if any(free < 0 and size == 1 for free, size in zip(signature[1:], recorded[1:], strict=True)):
            sizes = "x".join("?" if size < 0 else str(size) for size in signature)
            shape = units.shape(recorded)
            option = shlex.quote(f"{tensor.name}:{shape}")
            yield (
                f"input {tensor.name!r} has no fixed size ({sizes}), and all amounts are those of {shape}:"
                f" convert the model at its real size, or give --input {option} if that is it"
            )


def _note_open_inputs(
    context: Context, inputs: list[int], tensors: list[Tensor], signatures: dict[int, list[int]]
) -> None:
    for identity in inputs:
        if identity in signatures:
            tensor = tensors[identity]
            sizes = ["?" if size < 0 else str(size) for size in signatures[identity]]
            context.note(
                f"input {tensor.name!r} has a dynamic dimension ({'x'.join(sizes)}); counted at the shape"
                f" stored in the file, {units.shape(tensor.shape)}"
            )


def _check_recorded_shapes(model: Model, node: Node) -> None:
    """Drop recorded output shapes that contradict the operator; its cost is then unknown.

    Those that only some runtimes replace remain, with a note.
    """
    computed, is_contradiction = mismatch(node)
    if not computed:
        return
    name = node.tensors[node.outputs[0]].name
    text = f"computes {computed} as recorded in the file"
    if not is_contradiction:
        model.recomputed.append(f"LiteRT {text} ({node.source} {name!r})")
        return
    model.note(f"{node.source} {name!r} {text}: not counted")
    for identity in node.outputs:
        node.tensors[identity] = replace(node.tensors[identity], shape=None)


def _note_scratch(context: Context, nodes: list[Node], tensors: list[Tensor]) -> None:
    """Note scratch tensors: the operator's own memory plan may share their bytes or need more."""
    for node in nodes:
        inputs = [tensors[identity] for identity in node.inputs if identity != ABSENT]
        names = [
            repr(tensor.name)
            for tensor in inputs
            if tensor.data is not None and tensor.data.role == "scratch"
        ]
        if names:
            counted = (
                "counted as scratch memory" if len(names) == 1 else "each counted in full as scratch memory"
            )
            context.note(
                f"{' and '.join(names)} (no producer, no data): {counted}; {node.source} may share these"
                " bytes between tensors, and its other memory is not known"
            )


def _nodes(
    model: Model, table: Any, tensors: list[Tensor]
) -> tuple[list[Node], list[Callable[[Node], None] | None]]:
    nodes, lowerings = [], []
    for position in range(model.limits.tables(table.OperatorsLength())):
        operator = table.Operators(position)
        code = operator.OpcodeIndex()
        if code >= len(model.codes):
            raise CorruptModel(
                f"{model.name}: operator {position} has operator code {code} of {len(model.codes)} codes"
            )
        operator_code = model.codes[code]
        inputs, outputs = numbers(operator.InputsAsNumpy()), numbers(operator.OutputsAsNumpy())
        model.limits.refer(len(inputs) + len(outputs))
        present = [identity for identity in outputs if identity != ABSENT]
        node = Node(model, tensors, operator, operator_code.source, operator_code.kind, inputs, present)
        if operator_code.computes and not (node.has(0) and present):
            node.fail(f"at least one input and one output are required; it has {inputs} and {outputs}")
        node.has_foreign_options = operator.CustomOptionsLength() > 0 and not operator_code.is_custom
        nodes.append(node)
        lowerings.append(operator_code.lower)
    return nodes, lowerings


def _check_ids(
    context: Context, nodes: list[Node], inputs: list[int], outputs: list[int], count: int
) -> None:
    def within(identities: Iterable[int], lowest: int, referrer: str) -> None:
        for identity in identities:
            if not lowest <= identity < count:
                raise CorruptModel(
                    f"{context.name}: {referrer} refers to tensor {identity} of {count} tensors"
                )

    within(inputs, 0, "the list of inputs")
    within(outputs, 0, "the list of outputs")
    for node in nodes:
        within(node.inputs, ABSENT, node.source)
        within(node.outputs, 0, node.source)


def _initial_states(context: Context, nodes: list[Node], *, is_main: bool) -> set[int]:
    """Tensors with the initial values of variables that every inference overwrites.

    A variable that the main graph only reads holds trained weights, assigned before the first inference.
    """
    names = {
        node.outputs[0]: node.variable() for node in nodes if node.source == "VAR_HANDLE" and node.outputs
    }
    assignments = [
        (names[node.inputs[0]], node.inputs[1])
        for node in nodes
        if node.source == "ASSIGN_VARIABLE" and len(node.inputs) == 2 and node.inputs[0] in names
    ]
    if is_main:
        context.written.update(name for name, _ in assignments)
    return {value for name, value in assignments if name in context.written}


def _weights(nodes: list[Node], inputs: list[int]) -> set[int]:
    """Tensors that hold trained weights even without a scale: the weight inputs of operators, and the
    constants from which these are derived."""
    weights: set[int] = set()
    computed: set[int] = set(inputs)  # depends on more than constants
    for node in nodes:
        rule = cost_rule_of(node.kind)
        if rule is not None and (rule.weight is not None or rule.family == "recurrent"):
            weights.update(node.inputs[1:])
        if not computed.isdisjoint(node.inputs):
            computed.update(node.outputs)
    for node in reversed(nodes):
        if not weights.isdisjoint(node.outputs) and computed.isdisjoint(node.inputs):
            data = operator_of(node.source).data
            positions = range(len(node.inputs)) if data is None else data
            weights.update(node.inputs[position] for position in positions if node.has(position))
    return weights


def _computes(rule: OpRule) -> bool:
    """Whether an operator computes new values rather than converting or copying them."""
    return rule.macs is not None or (rule.elementwise is not None and "converts" not in rule.traits)


class _DerivedConstants:
    """Marks tensors that are derived once from constants, before the first inference.

    Runtimes execute an operator that computes values in every inference, even if all its inputs are constant.
    """

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors
        self.ids = {
            identity
            for identity, tensor in enumerate(tensors)
            if tensor.data is not None and tensor.data.role not in ("buffer", "scratch")
        }

    def follow(self, node: Node) -> None:
        """Mark the outputs of an operator whose inputs are all constant."""
        inputs = [identity for identity in node.inputs if identity != ABSENT]
        if not inputs or not self.ids.issuperset(inputs) or node.bodies or node.attrs.get("random"):
            return
        rule = cost_rule_of(node.kind)
        if rule is None or rule.every_run or _computes(rule):
            return
        for identity in node.outputs:
            self.ids.add(identity)
            self.tensors[identity] = replace(self.tensors[identity], data=_DERIVED)


def _op(node: Node, position: int) -> Op:
    name = node.tensors[node.outputs[0]].name if node.outputs else ""
    attrs = dict(node.attrs)
    if node.has_foreign_options:
        attrs["custom_options"] = True
    intermediates = numbers(node.operator.IntermediatesAsNumpy())
    node.context.limits.refer(len(intermediates))
    if any(not 0 <= each < len(node.tensors) or _has_size(node.tensors[each]) for each in intermediates):
        attrs["intermediates"] = True
    return Op(
        node.kind,
        tuple(node.inputs),
        tuple(node.outputs),
        attrs,
        node.source,
        name or str(position),
        scope_of(name),
        node.bodies,
    )


def _has_size(tensor: Tensor) -> bool:
    return tensor.shape is None or 0 not in tensor.shape


def scope_of(name: str) -> str:
    """The scope of an operator name; that of the first name if a fused operator has several.

    'model/block_1/conv/Conv2D;model/block_1/bn/FusedBatchNormV3' -> 'model/block_1/conv'
    """
    if "/" not in name:
        return ""
    parts = [part for part in name.partition(";")[0].split("/") if part]
    while parts and parts[0] in _WRAPPERS:
        parts = parts[1:]
    return "/".join(parts[:-1])
