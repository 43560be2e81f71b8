"""Operators of TFLite with settings drawn at random: what follows from another batch, against LiteRT."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import sizeup
from formats.tflite.factory import File, options, schema
from sizeup.errors import LoadError

EACH = 25
SAME, VALID = schema.Padding.SAME, schema.Padding.VALID


class Chain:
    """Operators one after another, on a batch of pictures."""

    def __init__(self, seed: str) -> None:
        self.random, self.file = Random(seed), File()
        self.batch = self.random.choice([1, 1, 2])
        self.shape = (self.batch, *(self.random.randint(3, 6) for _ in range(3)))
        self.last = self.first = self.file.main.tensor("x", self.shape)
        self.nests: list[tuple[tuple[int, ...], int]] = []  # loops, and the output that they run over
        self.inner: list[tuple[int, int]] = []  # contracted inputs (along the last axis) and their outputs

    def op(self, name: str, *inputs: int, count: int = 1, table: str = "", **fields: Any) -> None:
        main = self.file.main
        outputs = [main.tensor(f"y{len(main.table.tensors)}", ()) for _ in range(count)]
        main.op(name, inputs, outputs, options(table, **fields) if table else None)
        main.ends([self.first], [outputs[0]])
        # LiteRT's shapes at this batch are those that a converter would record.
        shapes = litert(self.file, self.batch)
        for output in outputs:
            main.table.tensors[output].shape = list(shapes[output])
        self.last, self.shape = outputs[0], shapes[outputs[0]]

    def constant(self, content: Any, kind: str = "INT32") -> int:
        values = np.array(content, np.int32 if kind == "INT32" else np.float32)
        return self.file.main.tensor(f"c{len(self.file.main.table.tensors)}", values.shape, kind, values)

    def window(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The sides of a window, no larger than the picture, and its steps."""
        first, second = (min(self.random.randint(1, 3), side) for side in self.shape[1:3])
        return (first, second), (self.random.randint(1, 3), self.random.randint(1, 3))

    def weights(self, *shape: int) -> int:
        return self.constant(np.ones(shape), "FLOAT32")


def litert(file: File, batch: int) -> dict[int, tuple[int, ...]]:
    """Every shape after the inputs were resized."""
    interpreter = Interpreter(
        model_content=file.pack(),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    for each in interpreter.get_input_details():
        interpreter.resize_tensor_input(each["index"], [batch, *each["shape"][1:]])
    interpreter.allocate_tensors()
    return {each["index"]: tuple(each["shape"].tolist()) for each in interpreter.get_tensor_details()}


def convolved(chain: Chain) -> None:
    channels = chain.shape[3]
    kernel, steps = chain.window()
    held: dict[str, Any] = {"strideH": steps[0], "strideW": steps[1]}
    held["padding"] = chain.random.choice([SAME, VALID])
    if chain.random.random() < 0.5:
        weights = chain.weights(2, *kernel, channels)
        bias = chain.weights(2)
        chain.op("CONV_2D", chain.last, weights, bias, table="Conv2DOptions", **held)
        chain.nests.append(((*kernel, channels), chain.last))
    else:
        weights, bias = chain.weights(1, *kernel, channels), chain.weights(channels)
        held["depthMultiplier"] = 1
        chain.op("DEPTHWISE_CONV_2D", chain.last, weights, bias, table="DepthwiseConv2DOptions", **held)
        chain.nests.append((kernel, chain.last))


def pooled(chain: Chain) -> None:
    name = chain.random.choice(["AVERAGE_POOL_2D", "MAX_POOL_2D"])
    taps, steps = chain.window()
    held = {"filterHeight": taps[0], "filterWidth": taps[1], "strideH": steps[0], "strideW": steps[1]}
    chain.op(name, chain.last, table="Pool2DOptions", padding=chain.random.choice([SAME, VALID]), **held)


def dense(chain: Chain) -> None:
    keeps = chain.random.random() < 0.5
    width, whole = chain.shape[-1], int(np.prod(chain.shape[1:]))
    if not keeps:  # rows are cut from the flat data, wherever its axes end
        width = chain.random.choice([each for each in range(1, whole + 1) if whole % each == 0])
    weights = chain.weights(5, width)
    chain.op("FULLY_CONNECTED", chain.last, weights, table="FullyConnectedOptions", keepNumDims=keeps)
    chain.nests.append(((width,), chain.last))


def reshaped(chain: Chain) -> None:
    rest = int(np.prod(chain.shape[1:]))
    target = chain.random.choice([[-1, rest], [chain.batch, -1], [-1], list(chain.shape), [1, -1, rest]])
    chain.op("RESHAPE", chain.last, chain.constant(target), table="ReshapeOptions", newShape=target)


def turned(chain: Chain) -> None:
    order = chain.random.sample(range(len(chain.shape)), len(chain.shape))
    chain.op("TRANSPOSE", chain.last, chain.constant(order), table="TransposeOptions")


def bordered(chain: Chain) -> None:
    borders = [[chain.random.randint(0, 1), chain.random.randint(0, 2)] for _ in chain.shape]
    chain.op("PAD", chain.last, chain.constant(borders), table="PadOptions")


def reduced(chain: Chain) -> None:
    axes = chain.random.sample(range(len(chain.shape)), chain.random.randint(1, len(chain.shape)))
    axes = [axis - len(chain.shape) if chain.random.random() < 0.3 else axis for axis in axes]
    name = chain.random.choice(["MEAN", "SUM", "REDUCE_MAX"])
    keeps = chain.random.random() < 0.5
    chain.op(name, chain.last, chain.constant(axes), table="ReducerOptions", keepDims=keeps)


def joined(chain: Chain) -> None:
    axis = chain.random.randrange(len(chain.shape))
    chain.op("CONCATENATION", chain.last, chain.last, table="ConcatenationOptions", axis=axis)


def parted(chain: Chain) -> None:
    axis = chain.random.randrange(len(chain.shape))
    count = chain.random.choice([each for each in (1, 2, 3) if chain.shape[axis] % each == 0])
    chain.op("SPLIT", chain.constant(axis), chain.last, count=count, table="SplitOptions", numSplits=count)


def added(chain: Chain) -> None:
    shape = [side if chain.random.random() < 0.5 else 1 for side in chain.shape]
    other = chain.weights(*shape) if chain.random.random() < 0.7 else chain.last
    chain.op("ADD", chain.last, other, table="AddOptions")


def axes_of_one(chain: Chain) -> None:
    if 1 in chain.shape[1:] and chain.random.random() < 0.5:
        axis = 1 + chain.shape[1:].index(1)
        chain.op("SQUEEZE", chain.last, table="SqueezeOptions", squeezeDims=[axis])
    else:
        axis = chain.random.randint(0, len(chain.shape))
        chain.op("EXPAND_DIMS", chain.last, chain.constant(axis), table="ExpandDimsOptions")


def softened(chain: Chain) -> None:
    chain.op("SOFTMAX", chain.last, table="SoftmaxOptions", beta=1.0)


def multiplied(chain: Chain) -> None:
    """A product of the value with itself turned."""
    before = chain.last
    order = [*range(len(chain.shape) - 2), len(chain.shape) - 1, len(chain.shape) - 2]
    chain.op("TRANSPOSE", chain.last, chain.constant(order), table="TransposeOptions")
    chain.op("BATCH_MATMUL", before, chain.last, table="BatchMatMulOptions")
    chain.inner.append((before, chain.last))


PICTURES = [convolved, pooled]
ANY = [reshaped, turned, bordered, reduced, joined, parted, added, axes_of_one]
WIDE = [dense, softened, multiplied]


def chain_of(seed: str) -> Chain:
    chain = Chain(seed)
    for _ in range(chain.random.randint(1, 4)):
        ready = ANY + PICTURES * 2 * (len(chain.shape) == 4) + WIDE * (2 <= len(chain.shape) <= 4)
        if not chain.shape:
            break
        chain.random.choice(ready)(chain)
    return chain


@pytest.mark.parametrize("group", range(4))
def test_shapes_and_products_of_another_batch_are_those_of_litert(group: int) -> None:
    agreed = 0
    for seed in range(EACH):
        chain = chain_of(f"{group} {seed}")
        free = sizeup.load(chain.file.pack(), free=["batch"])
        for batch in (chain.batch, 3, 5):
            try:
                bound = free.at(batch=batch)
            except LoadError:  # the batch is a constant in the file, or not the first dimension
                assert batch != chain.batch
                continue
            real = litert(chain.file, batch)
            outputs = [each for op in bound.ops for each in op.outputs]
            assert {each: bound.tensors[each].shape for each in outputs} == {e: real[e] for e in outputs}
            total = 0
            sums = [((real[one][-1],), other) for one, other in chain.inner]
            for nest, output in [*chain.nests, *sums]:
                for _ in product(*map(range, (*real[output], *nest))):
                    total += 1
            assert sizeup.count(bound).total_macs == total
            agreed += batch != chain.batch
    assert agreed > EACH / 2, "hardly anything has another batch: nothing is tested"
