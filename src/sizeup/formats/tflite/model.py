"""One .tflite file: its operator codes, what its subgraphs share, and the graph that each of them becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sizeup import units
from sizeup.errors import CorruptModel, InvalidGraph
from sizeup.formats.external import Home
from sizeup.formats.tflite.constants import Constants
from sizeup.formats.tflite.context import Context
from sizeup.formats.tflite.lowering import LOWERINGS
from sizeup.formats.tflite.node import Node
from sizeup.formats.tflite.schema import (
    DEEPEST_NESTING,
    MOST_OPERATORS_RUN,
    Limits,
    numbers,
    operator_names,
    schema,
)
from sizeup.formats.tflite.shapes import Openness, contradiction
from sizeup.formats.tflite.tensors import TensorReader
from sizeup.graph import ABSENT, Constant, Graph, Op, Tensor, check
from sizeup.ops import OpRule, kind_of, rule_of

_SCHEMA_VERSION = 3
_DERIVED = Constant("derived")
# Wrappers that TensorFlow's converter puts around the model's own names.
_WRAPPERS = frozenset(("StatefulPartitionedCall", "PartitionedCall"))


@dataclass(frozen=True, slots=True)
class OperatorCode:
    """What an operator is: its name in the file, our kind, and its lowering."""

    source: str
    kind: str
    lower: Callable[[Node], None] | None
    computes: bool  # its count needs an input and an output


class Model(Context):
    """The tables of a file, and the graphs made of its subgraphs so far."""

    def __init__(self, content: memoryview, name: str, home: Home) -> None:
        self.root = schema().Model.GetRootAs(content)
        if self.root.Version() != _SCHEMA_VERSION:
            raise CorruptModel(
                f"{name}: schema version {self.root.Version()}; only {_SCHEMA_VERSION} is in use"
            )
        limits = Limits(name, len(content))
        super().__init__(limits, Constants(self.root, content, limits, home))
        self.codes = [self._code(index) for index in range(limits.length(self.root.OperatorCodesLength()))]
        self.subgraphs = limits.length(self.root.SubgraphsLength())
        self._graphs: dict[int, Graph] = {}
        self._runs: dict[int, int] = {}  # operators that one run of a subgraph takes, its callees included
        # Subgraphs that are being read, and the operators of their callees so far.
        self._under_way: dict[int, int] = {}

    def graph(self, index: int) -> Graph:
        """The graph of a subgraph, made once however often it is called."""
        if not 0 <= index < self.subgraphs:
            raise CorruptModel(f"{self.name}: it calls subgraph {index} of {self.subgraphs}")
        if index in self._under_way:
            raise CorruptModel(f"{self.name}: subgraph {index} calls itself")
        if len(self._under_way) >= DEEPEST_NESTING:
            raise CorruptModel(f"{self.name}: subgraphs nested deeper than {DEEPEST_NESTING}")
        if index not in self._graphs:
            self._under_way[index] = 0
            graph = self._graphs[index] = _build(self, index)
            self._runs[index] = len(graph.ops) + self._under_way.pop(index)
        if self._under_way:
            self._count_run(self._runs[index])
        return self._graphs[index]

    def _count_run(self, operators: int) -> None:
        """Refuse a file whose subgraphs call one another so often that nobody could run them."""
        caller = next(reversed(self._under_way))
        self._under_way[caller] += operators
        if self._under_way[caller] > max(MOST_OPERATORS_RUN, self.limits.size):
            raise CorruptModel(f"{self.name}: its subgraphs call one another without end")

    def unreached(self) -> list[int]:
        """The subgraphs that no graph made so far has called."""
        return [index for index in range(self.subgraphs) if index not in self._graphs]

    def _code(self, index: int) -> OperatorCode:
        code = self.root.OperatorCodes(index)
        # Codes up to 127 may stand in either field, the larger ones in the newer one only.
        builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        names = operator_names()
        if builtin == schema().BuiltinOperator.CUSTOM:
            source = self.limits.label(code.CustomCode()) or "CUSTOM"
            kind = None if source in names.values() else kind_of("tflite", source)
        else:
            source = names.get(builtin, f"BUILTIN_{builtin}")
            kind = kind_of("tflite", source)
        if kind is None:
            return OperatorCode(source, _unknown_kind(source), None, computes=False)
        rule = rule_of(kind)
        computes = rule is not None and (rule.macs is not None or rule.elementwise is not None)
        return OperatorCode(source, kind, LOWERINGS.get(source), computes)


def _unknown_kind(source: str) -> str:
    """The kind of an operator without a rule: its own name, unless that would borrow another's rule."""
    rule = rule_of(source)
    return source if rule is None or rule.family == "own" else f"custom:{source}"


def _build(model: Model, index: int) -> Graph:
    """The graph of one subgraph; tensor ids are the file's own."""
    table = model.root.Subgraphs(index)
    inputs, outputs = numbers(table.InputsAsNumpy()), numbers(table.OutputsAsNumpy())
    tensors: list[Tensor] = []
    nodes, lowerings = _nodes(model, table, tensors)
    made = set(inputs).union(*(node.outputs for node in nodes))
    states = _initial_states(model, nodes, is_main=index == 0)
    used = set().union(*(node.inputs for node in nodes))
    reader = TensorReader(model, table, _weights(nodes, inputs), states, made, used)
    _check_ids(model, nodes, inputs, outputs, reader.count)
    tensors += reader.read()
    if index == 0:
        _note_open_inputs(model, inputs, tensors, reader.open)
    _note_scratch(model, nodes, tensors)
    openness = Openness(tensors, reader.open) if reader.open else None
    fixed = _Fixed(tensors)
    ops = []
    for position, (node, lower) in enumerate(zip(nodes, lowerings, strict=True)):
        if lower is not None:
            lower(node)
        if openness is not None:
            openness.follow(node)
        _drop_false_shapes(model, node)
        fixed.follow(node)
        ops.append(_op(node, position))
    name = model.limits.label(table.Name()) or f"subgraph {index}"
    graph = Graph(tuple(tensors), tuple(ops), tuple(inputs), tuple(outputs), name, "tflite")
    try:
        check(graph)
    except InvalidGraph as error:
        raise CorruptModel(f"{model.name}: {error}") from error
    return graph


def _note_open_inputs(
    context: Context, inputs: list[int], tensors: list[Tensor], signatures: dict[int, list[int]]
) -> None:
    for identity in inputs:
        if identity in signatures:
            tensor, signature = tensors[identity], units.shape(tuple(signatures[identity]))
            recorded = units.shape(tensor.shape)
            context.note(f"input {tensor.name!r} ({signature}) is counted at its recorded shape {recorded}")


def _drop_false_shapes(context: Context, node: Node) -> None:
    """Use no recorded shape that contradicts the operator: what it costs is then unknown."""
    computed = contradiction(node)
    if not computed:
        return
    name = node.tensors[node.outputs[0]].name
    context.note(f"{node.source} {name!r} computes {computed} as the file records: it is not counted")
    for identity in node.outputs:
        node.tensors[identity] = replace(node.tensors[identity], shape=None)


def _note_scratch(context: Context, nodes: list[Node], tensors: list[Tensor]) -> None:
    """Tell what an operator works in: its own compiler may let that share bytes, or take more."""
    for node in nodes:
        given = [tensors[each] for each in node.inputs if each != ABSENT]
        names = [repr(each.name) for each in given if each.data is not None and each.data.role == "scratch"]
        if names:
            what = (
                "which nothing makes or fills, counts as memory"
                if len(names) == 1
                else ("which nothing makes or fills, count as memory, each in full")
            )
            context.note(
                f"{' and '.join(names)}, {what}; a plan made for {node.source} may let tensors share bytes,"
                " and what else it takes is not known"
            )


def _nodes(
    model: Model, table: Any, tensors: list[Tensor]
) -> tuple[list[Node], list[Callable[[Node], None] | None]]:
    nodes, lowerings = [], []
    for position in range(model.limits.length(table.OperatorsLength())):
        operator = table.Operators(position)
        code = operator.OpcodeIndex()
        if code >= len(model.codes):
            raise CorruptModel(f"{model.name}: operator {position} has the code {code} of {len(model.codes)}")
        known = model.codes[code]
        inputs, outputs = numbers(operator.InputsAsNumpy()), numbers(operator.OutputsAsNumpy())
        model.limits.refer(len(inputs) + len(outputs))
        given = [each for each in outputs if each != ABSENT]
        node = Node(model, tensors, operator, known.source, known.kind, inputs, given)
        if known.computes and not (node.has(0) and given):
            node.fail(f"inputs {inputs} and outputs {outputs}")
        nodes.append(node)
        lowerings.append(known.lower)
    return nodes, lowerings


def _check_ids(
    context: Context, nodes: list[Node], inputs: list[int], outputs: list[int], count: int
) -> None:
    def within(identities: Iterable[int], lowest: int, where: str) -> None:
        for identity in identities:
            if not lowest <= identity < count:
                raise CorruptModel(f"{context.name}: {where} refers to tensor {identity} of {count}")

    within(inputs, 0, "the list of inputs")
    within(outputs, 0, "the list of outputs")
    for node in nodes:
        within(node.inputs, ABSENT, node.source)
        within(node.outputs, 0, node.source)


def _initial_states(context: Context, nodes: list[Node], *, is_main: bool) -> set[int]:
    """Tensors whose content a variable starts from, if every run writes that variable anew.

    A variable that the main graph only reads holds trained weights, put there before the first run.
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
    """What operators with weights read beside their data, and the constants that this is prepared from:
    trained numbers even without a scale."""
    found: set[int] = set()
    computed: set[int] = set(inputs)  # not from constants alone
    for node in nodes:
        rule = rule_of(node.kind)
        if rule is not None and (rule.weight is not None or rule.family == "recurrent"):
            found.update(node.inputs[1:])
        if not computed.isdisjoint(node.inputs):
            computed.update(node.outputs)
    for node in reversed(nodes):
        if not found.isdisjoint(node.outputs) and computed.isdisjoint(node.inputs):
            places = _DATA_PLACES.get(node.source, range(len(node.inputs)))
            found.update(node.inputs[place] for place in places if node.has(place))
    return found


# Which inputs hold data, where the others only say what is done with it: shapes, axes, offsets.
_DATA_PLACES: dict[str, Sequence[int]] = {
    **dict.fromkeys(
        ("RESHAPE", "TRANSPOSE", "EXPAND_DIMS", "BROADCAST_TO", "TILE", "SLICE", "STRIDED_SLICE", "SPLIT_V",
         "PAD", "MIRROR_PAD", "REVERSE_V2", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"), (0,)
    ),
    "SPLIT": (1,),
    "TFLM_DECODE": (),  # its lowering says what the codes stand for
}  # fmt: skip


def _computes(rule: OpRule) -> bool:
    """Whether an operator does more than store the same numbers in another way."""
    return rule.macs is not None or (rule.elementwise is not None and rule.kind not in _CONVERSIONS)


_CONVERSIONS = ("cast", "quantize", "dequantize", "fake_quantize", "complex_part", "decode")


class _Fixed:
    """Follows what is prepared before the first run: constants, and what is made of them alone.

    Runtimes run an operator that computes in every run, also where all of its inputs are constants.
    """

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors
        self.ids = {
            identity
            for identity, tensor in enumerate(tensors)
            if tensor.data is not None and tensor.data.role not in ("buffer", "scratch")
        }

    def follow(self, node: Node) -> None:
        """Mark the outputs of an operator that reads nothing but fixed tensors."""
        given = [identity for identity in node.inputs if identity != ABSENT]
        if not given or not self.ids.issuperset(given) or node.bodies or node.attrs.get("random"):
            return
        rule = rule_of(node.kind)
        if rule is None or rule.every_run or _computes(rule):
            return
        for identity in node.outputs:
            self.ids.add(identity)
            self.tensors[identity] = replace(self.tensors[identity], data=_DERIVED)


def _op(node: Node, position: int) -> Op:
    name = node.tensors[node.outputs[0]].name if node.outputs else ""
    return Op(
        node.kind,
        tuple(node.inputs),
        tuple(node.outputs),
        node.attrs,
        node.source,
        name or str(position),
        scope_of(name),
        node.bodies,
    )


def scope_of(name: str) -> str:
    """The path in front of an operator's own name, of the first where a fused operator joins several.

    'model/block_1/conv/Conv2D;model/block_1/bn/FusedBatchNormV3' -> 'model/block_1/conv'
    """
    if "/" not in name:
        return ""
    parts = [part for part in name.partition(";")[0].split("/") if part]
    while parts and parts[0] in _WRAPPERS:
        parts = parts[1:]
    return "/".join(parts[:-1])
