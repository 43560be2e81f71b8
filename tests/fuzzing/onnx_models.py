"""ONNX files: seeds, and mutants whose protobuf fields are changed one by one."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from onnx import helper

from formats.onnx.making import BOOL, INT64, graph, model, node, numbers, value, weight
from fuzzing.values import TEXTS, changed_bytes, integer, number

_DRAWN = ("flows", "fused", "layouts", "numbers", "plain", "windows")
_EACH = 2  # drawn models per operator
_LARGEST_SEED = 8_000
_LOCATIONS = (
    "w.bin",
    "../w.bin",
    "/etc/passwd",
    "..",
    "",
    ".",
    "link",
    "sub/../../x",
    "/dev/zero",
    "a\0b",
    "model.onnx",
)
_MOST_NODES = 400


def seeds(folder: Path) -> list[bytes]:
    """Drawn models of single operators, one with a bit of everything, functions and nested control flow."""
    from formats.onnx.drawn.case import DRAWS, Case

    for name in _DRAWN:
        importlib.import_module(f"formats.onnx.drawn.{name}")
    found = []
    for name, draw in DRAWS.items():
        for seed in range(_EACH):
            case = Case(f"{name} {seed}")
            draw(case)
            found.append(case.model().SerializeToString())
    found += [each.SerializeToString() for each in (varied(), functions(), nested(), external())] * 8
    return [each for each in found if len(each) <= _LARGEST_SEED]


def varied() -> onnx.ModelProto:
    """A small network: convolution, pooling, quantization, a loop, an einsum, a split."""
    body = graph(
        [node("MatMul", "state w2", "next"), node("Identity", "cond", "go")],
        [value("i", (), INT64), value("cond", (), BOOL), value("state")],
        "go next",
    )
    nodes = [
        node("Conv", "x w b", "c", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("MaxPool", "c", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", "p shape", "f"),
        node("QuantizeLinear", "f scale zero", "q"),
        node("DequantizeLinear", "q scale zero", "d"),
        node("Loop", "trips - d", "l", body=body),
        node("Einsum", "l w2", "e", equation="...d,de->...e"),
        node("Split", "e", "y z", num_outputs=2, axis=2),
    ]
    constants = [weight("w", 4, 3, 3, 3), weight("b", 4), weight("w2", 16, 16), numbers("shape", [1, -1, 16])]
    constants += [numbers("trips", 3), numbers("scale", 0.1, np.float32), numbers("zero", 0, np.uint8)]
    return model(nodes, [value("x", (1, 3, 8, 8))], "y z", constants)


def functions() -> onnx.ModelProto:
    """Two functions, one of which calls the other, with an attribute that is passed on."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    relu = node("LeakyRelu", "b", "c")
    relu.attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    )
    inner = helper.make_function(
        "own", "Inner", ["a"], ["c"], [node("Neg", "a", "b"), relu], opsets, ["slope"]
    )
    calls = [node("own::Inner", "a", "b", slope=0.5), node("Add", "a b", "c")]
    outer = helper.make_function("own", "Outer", ["a"], ["c"], calls, opsets)
    nodes = [node("own::Outer", "x", "m"), node("own::Inner", "m", "y", slope=0.1)]
    return model(nodes, [value("x", (2, 4))], "y", functions=[inner, outer])


def nested() -> onnx.ModelProto:
    """A scan and a branch within a branch, and shapes computed from shapes."""
    inner = graph(
        [node("If", "flag", "r", then_branch=_constant("r", 1.0), else_branch=_constant("r", 2.0))], (), "r"
    )
    body = graph(
        [node("Add", "s e", "t"), node("Identity", "t", "o")], [value("s", (4,)), value("e", (4,))], "t o"
    )
    nodes = [
        node("If", "flag", "b", then_branch=inner, else_branch=_constant("b", 3.0)),
        node("Scan", "start x", "last all", body=body, num_scan_inputs=1),
        node("Shape", "all", "sizes"),
        node("Slice", "sizes zero one", "first"),
        node("Concat", "first rest", "target", axis=0),
        node("Expand", "b target", "wide"),
        node("Add", "wide all", "y"),
    ]
    constants = [numbers("zero", [0]), numbers("one", [1]), numbers("rest", [4])]
    inputs = [value("flag", (), BOOL), value("start", (4,)), value("x", (5, 4))]
    return model(nodes, inputs, "y last", constants)


def _constant(name: str, content: float) -> onnx.GraphProto:
    return graph([node("Constant", "", name, value_float=content)], (), name)


def external() -> onnx.ModelProto:
    """A weight that the file keeps in another one."""
    made = model([node("MatMul", "x w", "y")], [value("x", (2, 4))], "y", [weight("w", 4, 4)])
    keep_outside(made.graph.initializer[0], "w.bin", "0", "64")
    return made


def keep_outside(tensor: onnx.TensorProto, location: str, offset: str, length: str) -> None:
    """Let a file refer to another one for the content of a tensor."""
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, text in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.append(onnx.StringStringEntryProto(key=key, value=text))


def mutate(content: bytes, random: Random) -> bytes:
    """Change protobuf fields, the structure of the model, or raw bytes."""
    if random.random() < 0.1:
        return changed_bytes(content, random)
    try:
        made = onnx.ModelProto.FromString(content)
    except DecodeError:
        return changed_bytes(content, random)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
        if random.random() < 0.55:
            _change_field(made, random)
        else:
            with contextlib.suppress(DecodeError):  # nested more deeply than protobuf writes
                random.choice(_CHANGES)(made, random)
    return bytes(made.SerializeToString())


def _change_field(made: onnx.ModelProto, random: Random) -> None:
    """Go down to a random message and change one of its fields, set or not."""
    message: Any = made.graph if random.random() < 0.85 else made
    for _ in range(12):
        inner = [(field, held) for field, held in message.ListFields() if field.message_type is not None]
        if not inner or random.random() < 0.15:
            break
        _, held = random.choice(inner)
        message = random.choice(held) if _is_list(held) else held
    fields = [field for field, _ in message.ListFields()]
    if not fields or random.random() < 0.3:
        fields = list(message.DESCRIPTOR.fields)
    _change(message, random.choice(fields), random)


def _is_list(held: Any) -> bool:
    return hasattr(held, "append") or hasattr(held, "add")


def _change(message: Any, field: Any, random: Random) -> None:
    held = getattr(message, field.name)
    try:
        if _is_list(held):
            _change_list(held, field, random)
        elif field.message_type is not None or random.random() < 0.1:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, _scalar(field, random))
    except (ValueError, TypeError, OverflowError):
        message.ClearField(field.name)


def _change_list(held: Any, field: Any, random: Random) -> None:
    choice = random.randrange(5)
    if choice == 0 and len(held):
        del held[random.randrange(len(held))]
    elif choice == 1 and len(held):
        held.extend([held[random.randrange(len(held))]])
    elif choice == 2 and len(held) > 1:
        order = random.sample(list(held), len(held))
        del held[:]
        held.extend(order)
    elif field.message_type is None and len(held):
        held[random.randrange(len(held))] = _scalar(field, random)
    elif field.message_type is None:
        held.append(_scalar(field, random))
    else:
        held.add()


def _scalar(field: Any, random: Random) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        text = random.choice(TEXTS)
        return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return number(random)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return random.choice([each.number for each in field.enum_type.values])
    if kind == FieldDescriptor.CPPTYPE_INT32 and random.random() < 0.5:
        return random.randint(-1, 30)  # data types and versions
    drawn = integer(random)
    return drawn if kind != FieldDescriptor.CPPTYPE_INT32 else (drawn + 2**31) % 2**32 - 2**31


# Changes of a model's structure; each takes the model and the random numbers.


def _node(made: onnx.ModelProto, random: Random) -> onnx.NodeProto | None:
    return random.choice(made.graph.node) if made.graph.node else None


def _names(made: onnx.ModelProto) -> list[str]:
    names = [name for each in made.graph.node for name in (*each.input, *each.output)]
    return [*names, *(each.name for each in made.graph.initializer), "", "nowhere"]


def _rewire(made: onnx.ModelProto, random: Random) -> None:
    chosen = _node(made, random)
    if chosen is not None:
        side = random.choice((chosen.input, chosen.output))
        name = random.choice(_names(made))
        if side and random.random() < 0.7:
            side[random.randrange(len(side))] = name
        else:
            side.append(name)


def _retype(made: onnx.ModelProto, random: Random) -> None:
    chosen = _node(made, random)
    if chosen is not None:
        chosen.op_type, chosen.domain = random.choice(_operators())


@functools.cache
def _operators() -> list[tuple[str, str]]:
    known = sorted({(each.name, each.domain) for each in onnx.defs.get_all_schemas()})
    return [
        *known,
        ("Attention", "com.microsoft"),
        ("QLinearConv", ""),
        ("Nowhere", "own"),
        ("Inner", "own"),
        ("Outer", "own"),
    ]


def _attribute(made: onnx.ModelProto, random: Random) -> None:
    """Set an attribute to a value of any type."""
    chosen = _node(made, random)
    if chosen is None:
        return
    names = [each.name for each in chosen.attribute] or ["axis"]
    name = random.choice((*names, *_ATTRIBUTES))
    kept = [each for each in chosen.attribute if each.name != name or random.random() < 0.1]
    del chosen.attribute[:]
    chosen.attribute.extend(kept)
    chosen.attribute.append(_any_attribute(name, random))


_ATTRIBUTES = (
    *("axis", "axes", "kernel_shape", "strides", "pads", "dilations", "group", "perm", "to", "num_outputs"),
    *("equation", "split", "blocksize", "hidden_size", "num_heads", "auto_pad", "output_shape", "keepdims"),
    *("num_scan_inputs", "transA", "value", "value_ints", "allowzero", "ceil_mode", "direction", "layout"),
)


def _any_attribute(name: str, random: Random) -> onnx.AttributeProto:
    made = onnx.AttributeProto(name=name)
    kinds = onnx.AttributeProto.AttributeType.values()
    kind = random.choice((2, 7, 7, 7, *kinds))
    made.type = kind
    if kind == onnx.AttributeProto.INT:
        made.i = integer(random)
    elif kind == onnx.AttributeProto.INTS:
        made.ints.extend(integer(random) for _ in range(random.choice((0, 1, 2, 2, 4, 4, 9))))
    elif kind == onnx.AttributeProto.FLOAT:
        made.f = number(random)
    elif kind == onnx.AttributeProto.STRING:
        made.s = random.choice((*TEXTS, "SAME_UPPER", "ij,jk->ik", "...,->", "a" * 60 + "->")).encode()
    elif kind == onnx.AttributeProto.TENSOR:
        made.t.CopyFrom(numbers("t", [integer(random) for _ in range(3)]))
    return made


def _lie(made: onnx.ModelProto, random: Random) -> None:
    """Declare a type and a shape for a value that has others."""
    name = random.choice(_names(made))
    sides = [random.choice((integer(random), "n", None)) for _ in range(random.randint(0, 5))]
    sides = [each if not isinstance(each, int) else abs(each) % 2**63 for each in sides]
    listed = random.choice((made.graph.value_info, made.graph.output, made.graph.input))
    listed.append(helper.make_tensor_value_info(name, random.randint(0, 23), sides))


def _tensor(made: onnx.ModelProto, random: Random) -> None:
    """Change a constant: its dims, type, the length of its data, or where that is kept."""
    if not made.graph.initializer:
        return
    chosen = random.choice(made.graph.initializer)
    choice = random.randrange(5)
    if choice == 0:
        chosen.data_type = random.randint(-1, 27)
    elif choice == 1:
        chosen.dims[:] = [integer(random) for _ in range(random.randint(0, 4))]
    elif choice == 2:
        chosen.raw_data = chosen.raw_data[: random.randrange(len(chosen.raw_data) + 1)]
    elif choice == 3:
        values = [integer(random) for _ in range(random.randint(0, 4))]
        chosen.CopyFrom(numbers(chosen.name, values))
    else:
        texts = [random.choice(("0", "64", "-1", str(2**63), "x", "")) for _ in range(2)]
        keep_outside(chosen, random.choice(_LOCATIONS), *texts)


def _opset(made: onnx.ModelProto, random: Random) -> None:
    if made.opset_import:
        random.choice(made.opset_import).version = random.choice((integer(random), random.randint(1, 25)))


def _repeat(made: onnx.ModelProto, random: Random) -> None:
    """Repeat the nodes, under the same names or under new ones."""
    nodes = list(made.graph.node)
    times = random.choice((2, 3, 10))
    if len(nodes) * times > _MOST_NODES:
        return
    for copy in range(1, times):
        for each in nodes:
            added = made.graph.node.add()
            added.CopyFrom(each)
            if random.random() < 0.8:
                added.output[:] = [f"{name}_{copy}" for name in each.output]


def _nest(made: onnx.ModelProto, random: Random) -> None:
    """Wrap the graph into branches, or put a copy of it into an attribute."""
    for _ in range(random.choice((1, 2, 8, 24))):
        inner = onnx.GraphProto()
        inner.CopyFrom(made.graph)
        del inner.input[:]
        chosen = node(
            "If",
            "flag",
            " ".join(each.name or "y" for each in inner.output),
            then_branch=inner,
            else_branch=_constant("e", 1.0),
        )
        del made.graph.node[:]
        made.graph.node.append(chosen)
        if made.ByteSize() > 100_000:
            return


def _recurse(made: onnx.ModelProto, random: Random) -> None:
    """Let a function call itself or a function of the graph's own operators."""
    opsets = list(made.opset_import)
    calls = [node("own::Again", "a", "b"), node("own::Outer", "b", "c")][: random.choice((1, 2))]
    made.functions.append(helper.make_function("own", "Again", ["a"], ["b"], calls, opsets))
    made.graph.node.append(node("own::Again", random.choice(_names(made)) or "x", f"r{random.randrange(99)}"))


def _reorder(made: onnx.ModelProto, random: Random) -> None:
    order = random.sample(list(made.graph.node), len(made.graph.node))
    del made.graph.node[:]
    made.graph.node.extend(order)


_CHANGES: tuple[Callable[[onnx.ModelProto, Random], None], ...] = (
    *(_rewire, _rewire, _retype, _retype, _attribute, _attribute, _attribute, _lie, _tensor, _tensor, _opset),
    *(_repeat, _nest, _recurse, _reorder),
)
