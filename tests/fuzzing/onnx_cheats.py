"""Changes of ONNX files that keep what a runtime computes, made to need less in the eyes of a reader.

No change removes or shrinks anything that runs. Which original a file was made of is in its description.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from formats.onnx.making import BOOL, INT64, graph, model, node, numbers, value
from fuzzing.values import TEXTS

_Model = onnx.ModelProto


def seeds(folder: Path) -> list[bytes]:
    """Networks whose numbers depend on every weight and on every input."""
    return list(_seeds())


@functools.cache
def _seeds() -> tuple[bytes, ...]:
    return tuple(
        _tagged(each, number) for number, each in enumerate((product(), dense(), network(), attention()))
    )


def original_of(content: bytes) -> int:
    """The number of the seed that a file was made of."""
    return int(_Model.FromString(content).doc_string or 0)


def mutate(content: bytes, random: Random) -> bytes:
    """Make some of the changes, then perhaps write the file in an odd way."""
    made, number = _Model.FromString(content), original_of(content)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        random.choice(_CHANGES)(made, random)
    return random.choice((_tagged, _tagged, _tagged, _split, _repeated))(made, number)


def _tagged(made: _Model, number: int) -> bytes:
    made.doc_string = str(number)
    return bytes(made.SerializeToString())


def _split(made: _Model, number: int) -> bytes:
    """The graph in two fields, which a parser merges."""
    first, second = _Model(), _Model()
    first.CopyFrom(made)
    half = len(made.graph.node) // 2
    del first.graph.node[half:]
    second.graph.node.extend(made.graph.node[half:])
    return (
        _tagged(second, number) + _tagged(first, number)
        if half == 0
        else _tagged(first, number) + _tagged(second, number)
    )


def _repeated(made: _Model, number: int) -> bytes:
    """Other values before those that count: a parser keeps the last of a field."""
    decoy = _Model(ir_version=3, producer_name="decoy", model_version=7)
    decoy.graph.name = "decoy"
    return bytes(decoy.SerializeToString()) + _tagged(made, number)


# Originals.


def _drawn(name: str, seed: int, *shape: int) -> TensorProto:
    return numbers(name, np.random.default_rng(seed).normal(size=shape), np.float32)


def product() -> _Model:
    """One matrix product."""
    return model(
        [node("MatMul", "x w", "y")],
        [value("x", (1, 256))],
        [value("y", (1, 64))],
        [_drawn("w", 1, 256, 64)],
        opset=18,
    )


def dense() -> _Model:
    """Two layers and an activation."""
    nodes = [
        node("Gemm", "x w b", "h"),
        node("Relu", "h", "r"),
        node("MatMul", "r v", "p"),
        node("Add", "p c", "y"),
    ]
    constants = [_drawn("w", 1, 32, 48), _drawn("b", 2, 48), _drawn("v", 3, 48, 10), _drawn("c", 4, 10)]
    return model(nodes, [value("x", (1, 32))], [value("y", (1, 10))], constants, opset=17)


def network() -> _Model:
    """Convolutions with a value that stays live beside them."""
    around = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", "x w b", "a", **around),
        node("Relu", "a", "r"),
        node("Conv", "r v", "c", **around),
        node("Add", "c a", "s"),
        node("GlobalAveragePool", "s", "g"),
        node("Flatten", "g", "f"),
        node("Gemm", "f d", "y"),
    ]
    constants = [
        _drawn("w", 1, 8, 3, 3, 3),
        _drawn("b", 2, 8),
        _drawn("v", 3, 8, 8, 3, 3),
        _drawn("d", 4, 8, 5),
    ]
    return model(nodes, [value("x", (1, 3, 8, 8))], [value("y", (1, 5))], constants, opset=18)


def attention() -> _Model:
    """Scores of a sequence with itself."""
    nodes = [
        node("MatMul", "x wq", "q"),
        node("MatMul", "x wk", "k"),
        node("Transpose", "k", "t", perm=[0, 2, 1]),
        node("MatMul", "q t", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p x", "o"),
        node("LayerNormalization", "o scale", "y"),
    ]
    constants = [_drawn("wq", 1, 16, 16), _drawn("wk", 2, 16, 16), _drawn("scale", 3, 16)]
    return model(nodes, [value("x", (1, 12, 16))], [value("y", (1, 12, 16))], constants, opset=18)


# Changes; each takes the model and the random numbers.


def _node(made: _Model, random: Random) -> onnx.NodeProto:
    nodes: Sequence[onnx.NodeProto] = made.graph.node
    return random.choice(nodes)


def _values(made: _Model) -> list[str]:
    return [name for each in made.graph.node for name in each.output if name]


def _shadow(made: _Model, random: Random) -> None:
    """A function with the name of an operator, that does nothing."""
    chosen = _node(made, random)
    domain = random.choice((chosen.domain, chosen.domain, "", "ai.onnx", "com.microsoft"))
    opsets = [helper.make_opsetid("", random.choice((1, 13, 18)))]
    inputs = [f"i{number}" for number in range(len(chosen.input))] or ["i0"]
    body = [node("Identity", inputs[0], "o")]
    function = helper.make_function(domain, chosen.op_type, inputs, ["o"], body, opsets)
    if random.random() < 0.2:
        function.overload = random.choice(("x", "1"))
    made.functions.append(function)
    if random.random() < 0.3:
        chosen.domain = domain
        made.opset_import.append(helper.make_opsetid(domain or "ai.onnx", random.choice((1, 18))))


def _call(made: _Model, random: Random) -> None:
    """Move an operator into a function, which another may call."""
    chosen = _node(made, random)
    name = f"F{len(made.functions)}"
    inner = onnx.NodeProto()
    inner.CopyFrom(chosen)
    read, wrote = [f"i{n}" for n in range(len(chosen.input))], [f"o{n}" for n in range(len(chosen.output))]
    inner.input[:], inner.output[:] = read, wrote
    opsets = [helper.make_opsetid(each.domain, each.version) for each in made.opset_import]
    made.functions.append(helper.make_function("own", name, read, wrote, [inner], opsets))
    if all(each.domain != "own" for each in made.opset_import):
        made.opset_import.append(helper.make_opsetid("own", 1))
    chosen.op_type, chosen.domain = name, "own"
    del chosen.attribute[:]


def _alias(made: _Model, random: Random) -> None:
    """Other spellings of the standard domain, and operator sets that are listed twice."""
    for each in made.graph.node:
        if each.domain == "" and random.random() < 0.7:
            each.domain = "ai.onnx"
    if random.random() < 0.5:
        made.opset_import.append(helper.make_opsetid("ai.onnx", random.choice((1, 13, 17, 18, 21))))
    if random.random() < 0.3:
        made.opset_import.append(helper.make_opsetid(random.choice(("own", "com.microsoft", "")), 1))


def _version(made: _Model, random: Random) -> None:
    made.ir_version = random.choice((3, 7, 8, 9, 10))
    for each in made.opset_import:
        if each.domain == "" and random.random() < 0.5:
            each.version = random.choice((13, 17, 18, 21))


def _lie(made: _Model, random: Random) -> None:
    """Record a shape or a dtype that a computed value does not have."""
    name = random.choice(_values(made))
    sides = [random.choice((0, 1, 1, 2, "n", None, 2**40)) for _ in range(random.randint(0, 4))]
    kind = random.choice((TensorProto.FLOAT,) * 3 + (TensorProto.INT8, TensorProto.FLOAT16, 0))
    made.graph.value_info.append(helper.make_tensor_value_info(name, kind, sides))


def _lie_about_an_end(made: _Model, random: Random) -> None:
    """Other sizes of an input or of an output."""
    ends = random.choice((made.graph.input, made.graph.output))
    for each in random.choice(ends).type.tensor_type.shape.dim:
        if random.random() < 0.5:
            each.dim_param = random.choice(("n", "batch", "1", ""))
        elif random.random() < 0.2:
            each.dim_value = random.choice((0, 1, -1))


def _initializer_as_input(made: _Model, random: Random) -> None:
    """List a constant as an input too, whose default it then is, perhaps in another shape."""
    if not made.graph.initializer:
        return
    chosen = random.choice(made.graph.initializer)
    shape = random.choice(
        (chosen.dims, chosen.dims, [1], [], [None] * len(chosen.dims), ["n"] * len(chosen.dims))
    )
    made.graph.input.append(helper.make_tensor_value_info(chosen.name, chosen.data_type, list(shape)))


def _constant(made: _Model, random: Random) -> None:
    """Keep a constant in an operator, as dense or sparse numbers."""
    if not made.graph.initializer:
        return
    chosen = made.graph.initializer[random.randrange(len(made.graph.initializer))]
    content = onnx.TensorProto()
    content.CopyFrom(chosen)
    name = chosen.name
    made.graph.initializer.remove(chosen)
    if random.random() < 0.4:
        added = helper.make_node("Constant", [], [name], sparse_value=_sparse_of(content))
    else:
        added = helper.make_node("Constant", [], [name], value=content)
    made.graph.node.insert(0, added)


def _sparse_of(tensor: TensorProto) -> onnx.SparseTensorProto:
    content = numpy_helper.to_array(tensor)
    flat = content.ravel()
    indices = np.arange(flat.size, dtype=np.int64)
    values = numbers(tensor.name, flat, flat.dtype)
    return helper.make_sparse_tensor(values, numbers("", indices), list(content.shape))


def _sparse(made: _Model, random: Random) -> None:
    """Keep a constant as sparse numbers."""
    if made.graph.initializer:
        chosen = random.choice(made.graph.initializer)
        made.graph.sparse_initializer.append(_sparse_of(chosen))
        made.graph.initializer.remove(chosen)


def _fields(made: _Model, random: Random) -> None:
    """Keep the numbers of a constant in another field."""
    if made.graph.initializer:
        chosen = random.choice(made.graph.initializer)
        if chosen.data_type == TensorProto.FLOAT and chosen.raw_data:
            chosen.float_data.extend(numpy_helper.to_array(chosen).ravel().tolist())
            if random.random() < 0.7:
                chosen.ClearField("raw_data")


def _computed(made: _Model, random: Random) -> None:
    """Compute a constant: from its parts, its transpose, or a copy."""
    if not made.graph.initializer:
        return
    chosen = random.choice(made.graph.initializer)
    name, content = chosen.name, numpy_helper.to_array(chosen)
    chosen.name = f"{name}/stored"
    choice = random.randrange(3)
    if choice == 0 or content.ndim < 1:
        added = node("Identity", chosen.name, name)
    elif choice == 1:
        order = list(range(content.ndim))[::-1]
        chosen.CopyFrom(numbers(chosen.name, content.transpose(order), content.dtype))
        added = node("Transpose", chosen.name, name, perm=order)
    else:
        made.graph.initializer.append(numbers(f"{name}/shape", list(content.shape)))
        chosen.dims[:] = [content.size]
        added = node("Reshape", f"{chosen.name} {name}/shape", name)
    made.graph.node.insert(0, added)


def _branch(made: _Model, random: Random) -> None:
    """Move an operator, or all of them, into a branch that is always taken."""
    where = random.randrange(len(made.graph.node))
    nodes = list(made.graph.node)
    chosen = nodes if random.random() < 0.5 else nodes[where : where + 1]
    outputs = [name for name in _values(made) if any(name in each.output for each in chosen)]
    if len(chosen) > 1:
        outputs = [each.name for each in made.graph.output]
    inner = graph(chosen, (), " ".join(f"{name}" for name in outputs))
    shown = [f"{name}/taken" for name in outputs]
    for each in inner.node:
        each.output[:] = [f"{name}/taken" if name in outputs else name for name in each.output]
        each.input[:] = [f"{name}/taken" if name in outputs else name for name in each.input]
    for each, name in zip(inner.output, shown, strict=True):
        each.name = name
    other = graph([node("Constant", "", f"{name}/else", value_float=0.0) for name in outputs], (),
                  " ".join(f"{name}/else" for name in outputs))  # fmt: skip
    flag = f"flag{len(made.graph.node)}{len(made.graph.initializer)}"
    made.graph.initializer.append(numbers(flag, True, np.bool_))
    taken = random.random() < 0.8
    sides = {"then_branch": inner, "else_branch": other if taken else inner}
    new = node("If", flag, " ".join(outputs), **sides)
    kept = [
        new if each is chosen[0] else each
        for each in nodes
        if each is chosen[0] or not any(each is one for one in chosen)
    ]
    del made.graph.node[:]
    made.graph.node.extend(kept)


def _loop(made: _Model, random: Random) -> None:
    """Move everything into a loop of one pass."""
    outputs = [each.name for each in made.graph.output]
    body = onnx.GraphProto()
    body.name = "body"
    body.input.extend([value("i/pass", (), INT64), value("go/in", (), BOOL)])
    body.node.extend(made.graph.node)
    body.node.append(node("Identity", "go/in", "go/out"))
    for each in body.node:
        each.output[:] = [f"{name}/inner" if name in outputs else name for name in each.output]
        each.input[:] = [f"{name}/inner" if name in outputs else name for name in each.input]
    names = ["go/out", *(f"{name}/inner" for name in outputs)]
    body.output.append(value("go/out", (), BOOL))
    body.output.extend(onnx.ValueInfoProto(name=name) for name in names[1:])
    for each, listed in zip(body.output[1:], made.graph.output, strict=True):
        each.type.CopyFrom(listed.type)
    del made.graph.node[:]
    trips = f"trips{len(made.graph.initializer)}"
    made.graph.initializer.append(numbers(trips, 1))
    stacked = [f"{name}/stacked" for name in outputs]
    made.graph.node.append(node("Loop", f"{trips} -", " ".join(stacked), body=body))
    made.graph.initializer.append(numbers(f"{trips}/axis", [0]))
    made.graph.node.extend(
        node("Squeeze", f"{name} {trips}/axis", out) for name, out in zip(stacked, outputs, strict=True)
    )


def _dead(made: _Model, random: Random) -> None:
    """Repeat an operator for an output that nothing reads, or list a value as an output too."""
    if random.random() < 0.5:
        added = onnx.NodeProto()
        added.CopyFrom(_node(made, random))
        added.output[:] = [f"{name}/dead{len(made.graph.node)}" for name in added.output]
        made.graph.node.append(added)
    else:
        made.graph.output.append(onnx.ValueInfoProto(name=random.choice(_values(made))))


def _rename(made: _Model, random: Random) -> None:
    """Names of operators that are equal, empty or strange."""
    name = random.choice(("", "n", *TEXTS[:12]))
    for each in made.graph.node:
        if random.random() < 0.7:
            each.name = name


def _describe(made: _Model, random: Random) -> None:
    """What tools write about a model, and what runtimes do not read."""
    made.producer_name = random.choice(("pytorch", "onnx.quantize", "tf2onnx", "sizeup", ""))
    made.domain = random.choice(("", "ai.onnx", "com.microsoft"))
    made.metadata_props.add(
        key=random.choice(("macs", "sizeup", "precision", "x")), value=random.choice(("0", "int8", ""))
    )
    chosen = random.choice(made.graph.node)
    chosen.doc_string = "quantized to int4"
    if random.random() < 0.5:
        chosen.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value="[]")


def _annotate(made: _Model, random: Random) -> None:
    """Annotations of quantization for values that are not quantized."""
    names = [*_values(made), *(each.name for each in made.graph.initializer)]
    annotation = made.graph.quantization_annotation.add(tensor_name=random.choice(names))
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=random.choice(names))


def _train(made: _Model, random: Random) -> None:
    """A second graph, for training."""
    info = made.training_info.add()
    info.algorithm.CopyFrom(made.graph)
    info.initialization.name = "start"


def _hide(made: _Model, random: Random) -> None:
    """An operator of no runtime beside the others, or in place of one, with numbers of its own."""
    domain = random.choice(("evil", "com.microsoft", "ai.onnx.ml", "", "com.example"))
    made.opset_import.append(helper.make_opsetid(domain, 1))
    name = random.choice(("Magic", "Conv", "Identity", "MatMul"))
    read = random.choice(_values(made))
    added = helper.make_node(name, [read], ["hidden"], domain=domain, floats=[1.0] * random.choice((1, 5000)))
    made.graph.node.append(added)
    if random.random() < 0.7:
        made.graph.output.append(onnx.ValueInfoProto(name="hidden"))


_Change = Callable[[_Model, Random], None]
_CHANGES: Sequence[_Change] = (
    *(_shadow, _shadow, _shadow, _call, _call, _alias, _version, _lie, _lie, _lie, _lie_about_an_end),
    *(_initializer_as_input, _constant, _constant, _sparse, _fields, _computed, _branch, _branch, _loop),
    *(_dead, _rename, _describe, _annotate, _train, _hide),
)
