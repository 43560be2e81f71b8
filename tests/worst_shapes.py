"""Files below 1 MB that cost a reader or a planner the most that we know of, at any size.

A generator takes the number of its repeated parts; `LARGEST` has the number that takes almost 1 MB.
"""

from __future__ import annotations

import functools
import io
import json
import random
import warnings
import zipfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, helper

# TensorFlow Lite


class Graph(NamedTuple):
    """A graph of float vectors: the lengths of its tensors, operators, inputs and outputs."""

    tensors: Sequence[int]
    operators: Sequence[tuple[str, Sequence[int], Sequence[int]]]
    inputs: Sequence[int]
    outputs: Sequence[int]
    branches: Sequence[int] = ()  # the graphs that every IF calls; its condition is tensor 0


class _File:
    """A file under construction, whose equal vectors are shared."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.builder = flatbuffers.Builder(1 << 20)
        self.sources = sources
        self._vectors: dict[tuple[int, ...], int] = {}
        self.codes = [self._code(source) for source in sources]
        self._settings: dict[str, tuple[int, int]] = {}
        for source, table in (("ADD", "Add"), ("CONCATENATION", "Concatenation")):
            getattr(schema, f"{table}OptionsStart")(self.builder)
            kind = getattr(schema.BuiltinOptions, f"{table}Options")
            self._settings[source] = (kind, getattr(schema, f"{table}OptionsEnd")(self.builder))

    def numbers(self, values: Sequence[int]) -> int:
        key = tuple(values)
        if key not in self._vectors:
            self.builder.StartVector(4, len(key), 4)
            for value in reversed(key):
                self.builder.PrependInt32(value)
            self._vectors[key] = self.builder.EndVector()
        return self._vectors[key]

    def tables(self, items: Sequence[int]) -> int:
        self.builder.StartVector(4, len(items), 4)
        for item in reversed(items):
            self.builder.PrependUOffsetTRelative(item)
        vector: int = self.builder.EndVector()
        return vector

    def _code(self, source: str) -> int:
        number = getattr(schema.BuiltinOperator, source, schema.BuiltinOperator.CUSTOM)
        name = self.builder.CreateString(source)
        schema.OperatorCodeStart(self.builder)
        schema.OperatorCodeAddDeprecatedBuiltinCode(self.builder, min(number, 127))
        schema.OperatorCodeAddBuiltinCode(self.builder, number)
        schema.OperatorCodeAddCustomCode(self.builder, name)
        code: int = schema.OperatorCodeEnd(self.builder)
        return code

    def tensor(self, length: int, name: int | None, *, is_condition: bool) -> int:
        shape = self.numbers([length])
        schema.TensorStart(self.builder)
        schema.TensorAddShape(self.builder, shape)
        if name is not None:
            schema.TensorAddName(self.builder, name)
        if is_condition:
            schema.TensorAddType(self.builder, schema.TensorType.BOOL)
        tensor: int = schema.TensorEnd(self.builder)
        return tensor

    def operator(
        self, source: str, inputs: Sequence[int], outputs: Sequence[int], branches: Sequence[int]
    ) -> int:
        ends = self.numbers(inputs), self.numbers(outputs)
        settings = self._settings.get(source)
        if branches:
            schema.IfOptionsStart(self.builder)
            schema.IfOptionsAddThenSubgraphIndex(self.builder, branches[0])
            schema.IfOptionsAddElseSubgraphIndex(self.builder, branches[1])
            settings = schema.BuiltinOptions.IfOptions, schema.IfOptionsEnd(self.builder)
        schema.OperatorStart(self.builder)
        schema.OperatorAddOpcodeIndex(self.builder, self.sources.index(source))
        schema.OperatorAddInputs(self.builder, ends[0])
        schema.OperatorAddOutputs(self.builder, ends[1])
        if settings is not None:
            schema.OperatorAddBuiltinOptionsType(self.builder, settings[0])
            schema.OperatorAddBuiltinOptions(self.builder, settings[1])
        operator: int = schema.OperatorEnd(self.builder)
        return operator

    def graph(self, graph: Graph, names: Sequence[int]) -> int:
        listed = [*names, *[names[-1] if names else None] * len(graph.tensors)]
        tensors = [
            self.tensor(length, listed[index], is_condition=bool(graph.branches) and index == 0)
            for index, length in enumerate(graph.tensors)
        ]
        operators = [
            self.operator(*each, graph.branches if each[0] == "IF" else ()) for each in graph.operators
        ]
        ends = self.numbers(graph.inputs), self.numbers(graph.outputs)
        parts = self.tables(tensors), self.tables(operators)
        schema.SubGraphStart(self.builder)
        schema.SubGraphAddTensors(self.builder, parts[0])
        schema.SubGraphAddInputs(self.builder, ends[0])
        schema.SubGraphAddOutputs(self.builder, ends[1])
        schema.SubGraphAddOperators(self.builder, parts[1])
        table: int = schema.SubGraphEnd(self.builder)
        return table

    def metadata(self) -> int:
        name = self.builder.CreateString("note")
        schema.MetadataStart(self.builder)
        schema.MetadataAddName(self.builder, name)
        entry: int = schema.MetadataEnd(self.builder)
        return entry


def tflite(*graphs: Graph, names: Sequence[str] = (), listed: int = 1, metadata: int = 0) -> bytes:
    """The file; `listed` is how often it lists its graphs, `names` those of tensors."""
    file = _File(sorted({operator[0] for graph in graphs for operator in graph.operators}))
    texts = [file.builder.CreateString(name) for name in names]
    tables = [file.graph(graph, texts) for graph in graphs] * listed
    schema.BufferStart(file.builder)
    empty = schema.BufferEnd(file.builder)
    entries = [file.metadata()] * metadata if metadata else []
    parts = file.tables(file.codes), file.tables(tables), file.tables([empty]), file.tables(entries)
    schema.ModelStart(file.builder)
    schema.ModelAddVersion(file.builder, 3)
    schema.ModelAddOperatorCodes(file.builder, parts[0])
    schema.ModelAddSubgraphs(file.builder, parts[1])
    schema.ModelAddBuffers(file.builder, parts[2])
    schema.ModelAddMetadata(file.builder, parts[3])
    file.builder.Finish(schema.ModelEnd(file.builder), b"TFL3")
    return bytes(file.builder.Output())


def _chain_graph(count: int, length: int = 4) -> Graph:
    operators = [("RELU", [index], [index + 1]) for index in range(count)]
    return Graph([length] * (count + 1), operators, [0], [count])


def tflite_chain(count: int) -> bytes:
    """A chain of operators."""
    return tflite(_chain_graph(count))


def tflite_live(count: int) -> bytes:
    """Tensors that are all in use until the last operator."""
    operators: list[Any] = [("RELU", [0], [1 + index]) for index in range(count)]
    operators.append(("CONCATENATION", list(range(1, count + 1)), [count + 1]))
    return tflite(Graph([*[1] * (count + 1), count], operators, [0], [count + 1]))


def tflite_inputs(count: int) -> bytes:
    """One operator with very many inputs of the model."""
    operators = [("CONCATENATION", list(range(count)), [count])]
    return tflite(Graph([*[1] * count, count], operators, list(range(count)), [count]))


def tflite_fan_out(count: int) -> bytes:
    """A tensor that every operator reads, and outputs that nothing does."""
    operators = [("RELU", [0], [1 + index]) for index in range(count)]
    return tflite(Graph([4] * (count + 1), operators, [0], list(range(1, count + 1))))


def tflite_mirror(count: int) -> bytes:
    """A chain whose second half reads the first half backwards."""
    half = count // 2
    operators: list[Any] = [("RELU", [index], [index + 1]) for index in range(half)]
    operators += [("ADD", [half + index, half - index], [half + index + 1]) for index in range(half)]
    return tflite(Graph([4] * (2 * half + 1), operators, [0], [2 * half]))


def tflite_random(count: int) -> bytes:
    """Operators that read any earlier tensors."""
    chosen = random.Random(0)
    operators = [("ADD", [chosen.randrange(n + 1), chosen.randrange(n + 1)], [n + 1]) for n in range(count)]
    return tflite(Graph([4] * (count + 1), operators, [0], [count]))


def tflite_shared(count: int) -> bytes:
    """A graph that is listed again and again."""
    return tflite(_chain_graph(20), listed=count)


def tflite_graphs(count: int) -> bytes:
    """Many small graphs that nothing calls."""
    return tflite(*[_chain_graph(2)] * count)


def tflite_calls(count: int) -> bytes:
    """Graphs that each call the next one four times."""
    ends = Graph([1, 4, 4], [("RELU", [1], [2])], [0, 1], [2])
    graphs = []
    for index in range(count):
        operators = [("IF", [0, 1 + part], [2 + part]) for part in range(2)]
        graphs.append(Graph([1, 4, 4, 4], operators, [0, 1], [3], [index + 1, index + 1]))
    return tflite(*graphs, ends)


def tflite_names(count: int) -> bytes:
    """Long names that begin alike."""
    prefix = "model/block/" * 70
    return tflite(_chain_graph(count), names=[f"{prefix}{index}" for index in range(count + 1)])


def tflite_long_name(count: int) -> bytes:
    """One name that every tensor shares, and of so many characters."""
    return tflite(_chain_graph(3), names=["a/b;" * (count // 4)])


def tflite_kinds(count: int) -> bytes:
    """Operators of as many kinds, all unknown."""
    operators = [(f"Own{index}", [index], [index + 1]) for index in range(count)]
    return tflite(Graph([4] * (count + 1), operators, [0], [count]))


def tflite_metadata(count: int) -> bytes:
    """Metadata entries that share a table."""
    return tflite(_chain_graph(3), metadata=count)


def tflite_blocks(count: int) -> bytes:
    """Equal blocks of operators."""
    operators: list[Any] = []
    for block in range(count // 8):
        start = 8 * block
        kinds = ("RELU", "TANH", "LOGISTIC")
        operators += [(kinds[n % 3], [n], [n + 1]) for n in range(start, start + 7)]
        operators.append(("ADD", [start, start + 7], [start + 8]))
    total = 8 * (count // 8)
    return tflite(Graph([4] * (total + 1), operators, [0], [total]))


# ONNX


def _vector(name: str, shape: Sequence[Any] = (4,), kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def onnx_file(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    *,
    domains: Sequence[str] = (),
    **parts: Any,
) -> bytes:
    functions = parts.pop("functions", [])
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), **parts)
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9)
    return bytes(model.SerializeToString())


def _node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    node = onnx.NodeProto(op_type=kind, input=inputs, output=outputs)
    for name, value in attributes.items():
        node.attribute.append(helper.make_attribute(name, value))
    return node


def onnx_chain(count: int) -> bytes:
    """A chain of operators."""
    nodes = [_node("Relu", [f"{n}"], [f"{n + 1}"]) for n in range(count)]
    return onnx_file(nodes, [_vector("0")], [_vector(f"{count}")])


def onnx_views(count: int) -> bytes:
    """A chain of operators that compute nothing."""
    nodes = [_node("Identity", [f"{n}"], [f"{n + 1}"]) for n in range(count)]
    return onnx_file(nodes, [_vector("0")], [_vector(f"{count}")])


def onnx_live(count: int) -> bytes:
    """Tensors that are all in use until the last operator."""
    nodes = [_node("Relu", ["x"], [f"{n}"]) for n in range(count)]
    nodes.append(_node("Sum", [f"{n}" for n in range(count)], ["y"]))
    return onnx_file(nodes, [_vector("x")], [_vector("y")])


def onnx_fan_out(count: int) -> bytes:
    """A tensor that every operator reads, and outputs that nothing does."""
    nodes = [_node("Relu", ["x"], [f"{n}"]) for n in range(count)]
    return onnx_file(nodes, [_vector("x")], [_vector(f"{n}") for n in range(count)])


def onnx_inputs(count: int) -> bytes:
    """One operator with very many inputs of the model."""
    names = [f"{n}" for n in range(count)]
    return onnx_file([_node("Sum", names, ["y"])], [_vector(name) for name in names], [_vector("y")])


def onnx_mirror(count: int) -> bytes:
    """A chain whose second half reads the first half backwards."""
    half = count // 2
    nodes = [_node("Relu", [f"{n}"], [f"{n + 1}"]) for n in range(half)]
    nodes += [_node("Add", [f"{half + n}", f"{half - n}"], [f"{half + n + 1}"]) for n in range(half)]
    return onnx_file(nodes, [_vector("0")], [_vector(f"{2 * half}")])


def onnx_random(count: int) -> bytes:
    """Operators that read any earlier tensor."""
    chosen = random.Random(0)
    nodes = [
        _node("Concat", [f"{chosen.randrange(n + 1)}", f"{n}"], [f"{n + 1}"], axis=0)
        if chosen.random() < 0.001
        else _node("Add", [f"{chosen.randrange(n + 1)}"] * 2, [f"{n + 1}"])
        for n in range(count)
    ]
    return onnx_file(nodes, [_vector("0")], [_vector(f"{count}", ["n"])])


def onnx_split(count: int) -> bytes:
    """One operator with very many outputs."""
    names = [f"{n}" for n in range(count)]
    node = _node("Split", ["x"], names, axis=0)
    return onnx_file([node], [_vector("x", (count,))], [_vector(names[0], (1,))])


def onnx_nested(count: int) -> bytes:
    """Branches within branches, as deep as the format permits."""

    def branch(depth: int) -> Any:
        out = _vector(f"o{depth}")
        if not depth:
            return helper.make_graph([_node("Relu", ["x"], ["o0"])], "b", [], [out])
        inner = branch(depth - 1)
        node = _node("If", ["c"], [f"o{depth}"], then_branch=inner, else_branch=inner)
        return helper.make_graph([node], "b", [], [out])

    depth = min(count, 12)
    node = _node("If", ["c"], ["y"], then_branch=branch(depth), else_branch=branch(0))
    return onnx_file([node], [_vector("x"), _vector("c", (), TensorProto.BOOL)], [_vector("y")])


def onnx_deep(count: int) -> bytes:
    """Loops within loops."""
    body = None
    for depth in range(min(count, 24)):
        cond = _node("Identity", ["c"], ["d"])
        work = (
            _node("Relu", ["v"], ["w"]) if body is None else _node("Loop", ["", "c", "v"], ["w"], body=body)
        )
        ends = [_vector("i", (), TensorProto.INT64), _vector("c", (), TensorProto.BOOL), _vector("v")]
        body = helper.make_graph(
            [cond, work], f"l{depth}", ends, [_vector("d", (), TensorProto.BOOL), _vector("w")]
        )
    node = _node("Loop", ["n", "", "x"], ["y"], body=body)
    return onnx_file([node], [_vector("n", (), TensorProto.INT64), _vector("x")], [_vector("y")])


def onnx_bomb(count: int) -> bytes:
    """Functions that each call the one before twice."""
    functions = []
    for index in range(count):
        kind = f"f{index - 1}"
        nodes = [
            helper.make_node(kind if index else "Relu", ["a"], ["b"], domain="d" if index else ""),
            helper.make_node(kind if index else "Relu", ["b"], ["c"], domain="d" if index else ""),
        ]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
        functions.append(helper.make_function("d", f"f{index}", ["a"], ["c"], nodes, opsets))
    node = helper.make_node(f"f{count - 1}", ["x"], ["y"], domain="d")
    return onnx_file([node], [_vector("x")], [_vector("y")], domains=["d"], functions=functions)


def onnx_called_often(count: int) -> bytes:
    """A function with a long attribute, and calls of it."""
    magic = _node("Magic", ["a"], ["b"], values=[1.0] * 10_000)
    magic.domain = "evil"
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("evil", 1)]
    function = helper.make_function("d", "f", ["a"], ["b"], [magic], opsets)
    nodes = [_node("f", [f"{n}"], [f"{n + 1}"]) for n in range(count)]
    for node in nodes:
        node.domain = "d"
    ends = [_vector("0")], [_vector(f"{count}")]
    return onnx_file(nodes, *ends, domains=["d", "evil"], functions=[function])


def onnx_functions(count: int) -> bytes:
    """Many functions, each called once."""
    opsets = [helper.make_opsetid("", 17)]
    functions = [
        helper.make_function("d", f"f{n}", ["a"], ["b"], [_node("Relu", ["a"], ["b"])], opsets)
        for n in range(count)
    ]
    nodes = []
    for n in range(count):
        nodes.append(_node(f"f{n}", [f"{n}"], [f"{n + 1}"]))
        nodes[-1].domain = "d"
    return onnx_file(nodes, [_vector("0")], [_vector(f"{count}")], domains=["d"], functions=functions)


def onnx_nested_functions(count: int) -> bytes:
    """A chain of functions, each of which calls the next one."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    functions = []
    for n in range(count):
        node = _node("Relu" if n == 0 else f"f{n - 1}", ["a"], ["b"])
        node.domain = "d" if n else ""
        functions.append(helper.make_function("d", f"f{n}", ["a"], ["b"], [node], opsets))
    call = _node(f"f{count - 1}", ["x"], ["y"])
    call.domain = "d"
    return onnx_file([call], [_vector("x")], [_vector("y")], domains=["d"], functions=functions)


def onnx_names(count: int) -> bytes:
    """Long names that begin alike, with scopes."""
    prefix = "/model/block" * 40
    nodes = [_node("Relu", [f"{n}"], [f"{n + 1}"]) for n in range(count)]
    for n, node in enumerate(nodes):
        node.name = f"{prefix}/{n}"
    return onnx_file(nodes, [_vector("0")], [_vector(f"{count}")])


def onnx_scopes(count: int) -> bytes:
    """One operator whose name has very many scopes."""
    nodes = [_node("Relu", ["x"], ["y"])]
    nodes[0].name = "/a" * (count // 2)
    return onnx_file(nodes, [_vector("x")], [_vector("y")])


def onnx_rank(count: int) -> bytes:
    """Shapes of very high rank."""
    shape = [1] * count
    return onnx_file([_node("Relu", ["x"], ["y"])], [_vector("x", shape)], [_vector("y", shape)])


def onnx_symbols(count: int) -> bytes:
    """Inputs with a symbolic size each, all added up."""
    names = [f"{n}" for n in range(count)]
    inputs = [_vector(name, [f"s{name}"]) for name in names]
    nodes = [_node("Concat", names, ["y"], axis=0)]
    return onnx_file(nodes, inputs, [_vector("y", ["t"])])


def onnx_expressions(count: int) -> bytes:
    """Sizes that are sums of sums: each operator joins the two before it."""
    nodes = [_node("Concat", [f"{n}", f"{n + 1}"], [f"{n + 2}"], axis=0) for n in range(count)]
    return onnx_file(nodes, [_vector("0", ["a"]), _vector("1", ["b"])], [_vector(f"{count + 1}", ["z"])])


def onnx_products(count: int) -> bytes:
    """Sizes that are computed from shapes, and multiplied."""
    nodes = [_node("Shape", ["x"], ["s0"])]
    nodes += [_node("Mul" if n % 2 else "Add", [f"s{n}", "s0"], [f"s{n + 1}"]) for n in range(count)]
    nodes.append(_node("ConstantOfShape", [f"s{count}"], ["y"]))
    return onnx_file(nodes, [_vector("x", ["a", "b"])], [_vector("y", ["c", "d"])])


def onnx_value_infos(count: int) -> bytes:
    """Declared shapes of tensors that do not exist."""
    infos = [_vector(f"v{n}") for n in range(count)]
    return onnx_file([_node("Relu", ["x"], ["y"])], [_vector("x")], [_vector("y")], value_info=infos)


def onnx_domains(count: int) -> bytes:
    """Imported operator sets."""
    domains = [f"d{n}" for n in range(count)]
    return onnx_file([_node("Relu", ["x"], ["y"])], [_vector("x")], [_vector("y")], domains=domains)


def onnx_initializers(count: int) -> bytes:
    """Small weights, each added."""
    weights = [helper.make_tensor(f"w{n}", TensorProto.FLOAT, [1], [1.0]) for n in range(count)]
    nodes = [_node("Add", [f"{n}", f"w{n}"], [f"{n + 1}"]) for n in range(count)]
    return onnx_file(nodes, [_vector("0")], [_vector(f"{count}")], initializer=weights)


def onnx_folding(count: int) -> bytes:
    """Constants that each tile the one before: as large as no memory if they were computed."""
    weights = [
        helper.make_tensor("0", TensorProto.INT64, [1], [1]),
        helper.make_tensor("r", TensorProto.INT64, [1], [4]),
    ]
    nodes = [_node("Tile", [f"{n}", "r"], [f"{n + 1}"]) for n in range(min(count, 20))]
    last = f"{len(nodes)}"
    nodes.append(_node("Shape", [last], ["s"]))
    nodes += [_node("ReduceProd", [last], [f"p{n}"], keepdims=1) for n in range(count)]
    nodes.append(_node("Sum", [f"p{n}" for n in range(count)], ["y"]))
    return onnx_file(nodes, [], [_vector("y", (1,), TensorProto.INT64)], initializer=weights)


def onnx_ranges(count: int) -> bytes:
    """Ranges of constants, each of millions of numbers, that become shapes."""
    weights = [
        helper.make_tensor(name, TensorProto.INT64, [], [value])
        for name, value in (("0", 0), ("n", 10**7), ("1", 1))
    ]
    nodes = []
    for n in range(count):
        nodes.append(_node("Range", ["0", "n", "1"], [f"r{n}"]))
        nodes.append(_node("ReduceMax", [f"r{n}"], [f"m{n}"], keepdims=1))
    nodes.append(_node("Concat", [f"m{n}" for n in range(count)], ["s"], axis=0))
    nodes.append(_node("Expand", ["x", "m0"], ["y"]))
    return onnx_file(nodes, [_vector("x", (1,))], [_vector("y", ["n"])], initializer=weights)


def onnx_shared_constant(count: int) -> bytes:
    """A long list of sizes that very many operators read."""
    sizes = helper.make_tensor(
        "s", TensorProto.INT64, [20_000], np.ones(20_000, np.int64).tobytes(), raw=True
    )
    nodes = [_node("Reshape", ["x", "s"], [f"{n}"]) for n in range(count)]
    return onnx_file(nodes, [_vector("x", (1,))], [_vector("0", ["n"])], initializer=[sizes])


def onnx_attribute(count: int) -> bytes:
    """An unknown operator with a long attribute."""
    node = _node("Magic", ["x"], ["y"], values=[float(n) for n in range(count)])
    node.domain = "evil"
    return onnx_file([node], [_vector("x")], [_vector("y")], domains=["evil"])


def onnx_kinds(count: int) -> bytes:
    """Operators of as many kinds, all unknown."""
    nodes = [_node(f"Own{n}", [f"{n}"], [f"{n + 1}"]) for n in range(count)]
    for node in nodes:
        node.domain = "evil"
    return onnx_file(nodes, [_vector("0")], [_vector(f"{count}")], domains=["evil"])


def onnx_blocks(count: int) -> bytes:
    """Equal blocks of operators."""
    nodes = []
    for block in range(count // 8):
        start = 8 * block
        kinds = ("Relu", "Tanh", "Sigmoid")
        nodes += [_node(kinds[n % 3], [f"{n}"], [f"{n + 1}"]) for n in range(start, start + 7)]
        nodes.append(_node("Add", [f"{start}", f"{start + 7}"], [f"{start + 8}"]))
    return onnx_file(nodes, [_vector("0")], [_vector(f"{8 * (count // 8)}")])


def onnx_convolutions(count: int) -> bytes:
    """Layers with weights, all alike, for precision and remedies."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1, 1, 1, 1], [1.0])
    nodes = [_node("Conv", [f"{n}", "w"], [f"{n + 1}"]) for n in range(count)]
    ends = [_vector("0", (1, 1, 8, 8))], [_vector(f"{count}", (1, 1, 8, 8))]
    return onnx_file(nodes, *ends, initializer=[weight])


def onnx_einsum(count: int) -> bytes:
    """An equation of very many operands."""
    names = [f"{n}" for n in range(count)]
    node = _node("Einsum", names, ["y"], equation=",".join(["i"] * count) + "->i")
    return onnx_file(
        [node],
        [_vector("0")],
        [_vector("y")],
        initializer=[helper.make_tensor(name, TensorProto.FLOAT, [4], [1.0] * 4) for name in names[1:]],
    )


def onnx_duplicates(count: int) -> bytes:
    """Names that are equal again and again."""
    nodes = [_node("Relu", ["x"], [f"{n}"]) for n in range(count)]
    for node in nodes:
        node.name = "n"
    return onnx_file(nodes, [_vector("x")], [_vector("0")])


def onnx_quantized(count: int) -> bytes:
    """Pairs of quantization and dequantization around every operator."""
    scale = [
        helper.make_tensor("s", TensorProto.FLOAT, [], [0.1]),
        helper.make_tensor("z", TensorProto.INT8, [], [0]),
    ]
    nodes = []
    for n in range(count):
        nodes.append(_node("Relu", [f"{n}"], [f"r{n}"]))
        nodes.append(_node("QuantizeLinear", [f"r{n}", "s", "z"], [f"q{n}"]))
        nodes.append(_node("DequantizeLinear", [f"q{n}", "s", "z"], [f"{n + 1}"]))
    return onnx_file(nodes, [_vector("0")], [_vector(f"{count}")], initializer=scale)


# Exported programs of PyTorch


@functools.cache
def _program() -> list[tuple[str, bytes]]:
    """The entries of a small program with a symbolic batch."""
    import torch

    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x)

    shapes = ({0: torch.export.Dim("batch", min=1, max=64)},)
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(Double(), (torch.zeros(2),), dynamic_shapes=shapes), buffer)
    with zipfile.ZipFile(buffer) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def _changed(change: Callable[[dict[str, Any]], None]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in _program():
            if name.endswith("models/model.json"):
                program = json.loads(content)
                change(program)
                content = json.dumps(program, separators=(",", ":")).encode()
            archive.writestr(name, content)
    return buffer.getvalue()


def _pt2(nodes: Sequence[tuple[str, str, Any]], outputs: int, scope: str = "") -> bytes:
    """A program of operators: target, name of the argument, argument; the outputs are numbered from 1 on."""

    def change(program: dict[str, Any]) -> None:
        graph = program["graph_module"]["graph"]
        value = graph["tensor_values"]["x"] | {"sizes": [{"as_int": 4}]}
        graph["tensor_values"] = {"x": value} | {str(n + 1): value for n in range(len(nodes))}
        graph["nodes"] = [
            {
                "target": f"torch.ops.aten.{target}",
                "inputs": [{"name": name, "arg": argument, "kind": 1}],
                "outputs": [{"as_tensor": {"name": str(n + 1)}}],
                "metadata": {"nn_module_stack": scope} if scope else {},
                "is_hop_single_tensor_return": None,
                "name": str(n + 1),
            }
            for n, (target, name, argument) in enumerate(nodes)
        ]
        ends = [{"as_tensor": {"name": str(len(nodes) - n)}} for n in range(outputs)]
        graph["outputs"] = ends
        signature = program["graph_module"]["signature"]
        signature["output_specs"] = [{"user_output": {"arg": end}} for end in ends]

    return _changed(change)


def _tensor(number: int) -> dict[str, Any]:
    return {"as_tensor": {"name": str(number) if number else "x"}}


def pt2_chain(count: int) -> bytes:
    """A chain of operators."""
    return _pt2([("relu.default", "self", _tensor(n)) for n in range(count)], 1)


def pt2_live(count: int) -> bytes:
    """Tensors that are all in use until the last operator."""
    nodes: list[tuple[str, str, Any]] = [("relu.default", "self", _tensor(0)) for _ in range(count)]
    nodes.append(("cat.default", "tensors", {"as_tensors": [{"name": str(n + 1)} for n in range(count)]}))
    return _pt2(nodes, 1)


def pt2_fan_out(count: int) -> bytes:
    """A tensor that every operator reads, and outputs that nothing does."""
    return _pt2([("relu.default", "self", _tensor(0)) for _ in range(count)], count)


def pt2_scopes(count: int) -> bytes:
    """Operators in modules within modules."""
    scope = ";".join(f"L__self__{'.a' * depth},{'.a' * depth},m.M" for depth in range(count))
    return _pt2([("relu.default", "self", _tensor(n)) for n in range(20)], 1, scope)


def _sized(text: str) -> bytes:
    def change(program: dict[str, Any]) -> None:
        for value in program["graph_module"]["graph"]["tensor_values"].values():
            value["sizes"] = [{"as_expr": {"expr_str": text, "hint": {"as_int": 2}}}]

    return _changed(change)


_SYMBOL = "Symbol('s77', positive=True, integer=True)"


def pt2_sum(count: int) -> bytes:
    """A size that is a long sum."""
    return _sized("+".join([_SYMBOL] * count))


def pt2_product(count: int) -> bytes:
    """A size that is a long product of sums."""
    return _sized("*".join([f"({_SYMBOL}+1)"] * count))


def pt2_parentheses(count: int) -> bytes:
    """A size in very many parentheses."""
    return _sized("(" * count + _SYMBOL + ")" * count)


def pt2_symbols(count: int) -> bytes:
    """Bounds of symbols that do not exist."""

    def change(program: dict[str, Any]) -> None:
        program["range_constraints"] |= {f"u{n}": {"min_val": 1, "max_val": 64} for n in range(count)}

    return _changed(change)


def pt2_nested(count: int) -> bytes:
    """Lists within lists."""
    text = json.dumps({"deep": None}).replace("null", "[" * count + "]" * count)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in _program():
            archive.writestr(name, text if name.endswith("models/model.json") else content)
    return buffer.getvalue()


LARGEST: dict[Callable[[int], bytes], int] = {
    tflite_chain: 17_000,
    tflite_live: 15_000,
    tflite_inputs: 40_000,
    tflite_fan_out: 16_000,
    tflite_mirror: 15_000,
    tflite_random: 14_000,
    tflite_shared: 200_000,
    tflite_graphs: 5_000,
    tflite_calls: 7,
    tflite_names: 1_000,
    tflite_long_name: 900_000,
    tflite_kinds: 9_000,
    tflite_metadata: 200_000,
    tflite_blocks: 15_000,
    onnx_chain: 30_000,
    onnx_views: 25_000,
    onnx_live: 25_000,
    onnx_fan_out: 18_000,
    onnx_inputs: 30_000,
    onnx_mirror: 28_000,
    onnx_random: 25_000,
    onnx_split: 100_000,
    onnx_nested: 12,
    onnx_deep: 24,
    onnx_bomb: 15,
    onnx_called_often: 1_300,
    onnx_functions: 8_000,
    onnx_nested_functions: 10_000,
    onnx_names: 1_800,
    onnx_scopes: 900_000,
    onnx_rank: 100_000,
    onnx_symbols: 20_000,
    onnx_expressions: 20_000,
    onnx_products: 25_000,
    onnx_value_infos: 30_000,
    onnx_domains: 60_000,
    onnx_initializers: 13_000,
    onnx_folding: 20_000,
    onnx_ranges: 12_000,
    onnx_shared_constant: 25_000,
    onnx_attribute: 200_000,
    onnx_kinds: 18_000,
    onnx_blocks: 28_000,
    onnx_convolutions: 25_000,
    onnx_einsum: 15_000,
    onnx_duplicates: 25_000,
    onnx_quantized: 7_000,
    pt2_chain: 2_600,
    pt2_live: 2_500,
    pt2_fan_out: 2_200,
    pt2_scopes: 120,
    pt2_sum: 9_000,
    pt2_product: 8_000,
    pt2_parentheses: 200_000,
    pt2_symbols: 20_000,
    pt2_nested: 400_000,
}
"""How many repeated parts a file of almost 1 MB has."""
