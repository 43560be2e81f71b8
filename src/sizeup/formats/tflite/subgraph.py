"""A subgraph of the file as a graph of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sizeup import units
from sizeup.errors import CorruptModel, InvalidGraph
from sizeup.formats.tflite.dynamic import Openness
from sizeup.formats.tflite.names import scope_of
from sizeup.formats.tflite.node import Node
from sizeup.formats.tflite.recorded import contradiction
from sizeup.formats.tflite.schema import numbers
from sizeup.formats.tflite.tensors import TensorReader
from sizeup.graph import ABSENT, Constant, Graph, Op, Tensor, check
from sizeup.ops import OpRule, rule_of

if TYPE_CHECKING:
    from sizeup.formats.tflite.model import Model

_DERIVED = Constant("derived")


def build(model: Model, index: int) -> Graph:
    """The graph of one subgraph; tensor ids are the file's own."""
    table = model.root.Subgraphs(index)
    inputs, outputs = numbers(table.InputsAsNumpy()), numbers(table.OutputsAsNumpy())
    tensors: list[Tensor] = []
    nodes, normalisers = _nodes(model, table, tensors)
    made = set(inputs).union(*(node.outputs for node in nodes))
    states = model.variables.initial_states(nodes, is_main=index == 0)
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
    for position, (node, normalise) in enumerate(zip(nodes, normalisers, strict=True)):
        if normalise is not None:
            normalise(node)
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
    model: Model, inputs: list[int], tensors: list[Tensor], signatures: dict[int, list[int]]
) -> None:
    for identity in inputs:
        if identity in signatures:
            tensor, signature = tensors[identity], units.shape(tuple(signatures[identity]))
            recorded = units.shape(tensor.shape)
            model.note(f"input {tensor.name!r} ({signature}) is counted at its recorded shape {recorded}")


def _drop_false_shapes(model: Model, node: Node) -> None:
    """Use no recorded shape that contradicts the operator: what it costs is then unknown."""
    computed = contradiction(node)
    if not computed:
        return
    name = node.tensors[node.outputs[0]].name
    model.note(f"{node.source} {name!r} computes {computed} as the file records: it is not counted")
    for identity in node.outputs:
        node.tensors[identity] = replace(node.tensors[identity], shape=None)


def _note_scratch(model: Model, nodes: list[Node], tensors: list[Tensor]) -> None:
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
            model.note(
                f"{' and '.join(names)}, {what}; a plan made for {node.source} may let tensors share bytes,"
                " and what else it takes is not known"
            )


def _nodes(
    model: Model, table: Any, tensors: list[Tensor]
) -> tuple[list[Node], list[Callable[[Node], None] | None]]:
    nodes, normalisers = [], []
    for position in range(model.limits.length(table.OperatorsLength())):
        operator = table.Operators(position)
        code = operator.OpcodeIndex()
        if code >= len(model.codes):
            raise CorruptModel(f"{model.name}: operator {position} has the code {code} of {len(model.codes)}")
        found = model.codes[code]
        inputs, outputs = numbers(operator.InputsAsNumpy()), numbers(operator.OutputsAsNumpy())
        model.limits.refer(len(inputs) + len(outputs))
        given = [each for each in outputs if each != ABSENT]
        node = Node(model, tensors, operator, found.source, found.kind, inputs, given)
        if found.computes and not (node.has(0) and given):
            node.fail(f"inputs {inputs} and outputs {outputs}")
        nodes.append(node)
        normalisers.append(found.normalise)
    return nodes, normalisers


def _check_ids(model: Model, nodes: list[Node], inputs: list[int], outputs: list[int], count: int) -> None:
    def within(identities: Iterable[int], lowest: int, where: str) -> None:
        for identity in identities:
            if not lowest <= identity < count:
                raise CorruptModel(f"{model.name}: {where} refers to tensor {identity} of {count}")

    within(inputs, 0, "the list of inputs")
    within(outputs, 0, "the list of outputs")
    for node in nodes:
        within(node.inputs, ABSENT, node.source)
        within(node.outputs, 0, node.source)


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
    "TFLM_DECODE": (),  # its normaliser says what the codes stand for
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
