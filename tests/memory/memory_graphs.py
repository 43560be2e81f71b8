"""Small graphs and random problems for everything that plans memory."""

from __future__ import annotations

from hypothesis import strategies as st

from sizeup.dtypes import dtype
from sizeup.graph import Graph, GraphBuilder
from sizeup.memory.ordering import Problem

BYTE = dtype("int8")


def branches() -> Graph:
    """Two branches that grow to 1000 B and shrink to 10 B, in an order that holds both at their widest."""
    builder = GraphBuilder("branches")
    x = builder.input("x", (100,), BYTE)
    a, b = (builder.tensor(name, (1000,), BYTE) for name in ("a", "b"))
    a2, b2, out = (builder.tensor(name, (10,), BYTE) for name in ("a2", "b2", "out"))
    builder.op("repeat", [x], [a])
    builder.op("repeat", [x], [b])
    builder.op("max", [a], [a2])
    builder.op("max", [b], [b2])
    builder.op("add", [a2, b2], [out])
    builder.outputs.append(out)
    return builder.freeze()


@st.composite
def random_problem(draw: st.DrawFn, most_ops: int) -> Problem:
    """Operators with one or two outputs that read any earlier ones, one of them an input of the graph."""
    count = draw(st.integers(1, most_ops))
    sizes, makes, reads = [draw(st.integers(0, 50))], [], []
    for _ in range(count):
        readable = range(len(sizes))
        reads.append(tuple(sorted(draw(st.sets(st.sampled_from(readable), max_size=3)))))
        made = draw(st.integers(1, 2))
        makes.append(tuple(range(len(sizes), len(sizes) + made)))
        sizes += [draw(st.integers(0, 50)) for _ in range(made)]
    # A given input that nobody reads is no part of the problem.
    if not any(0 in each for each in reads):
        reads[0] = (0,)
    stays = tuple(draw(st.booleans()) if buffer else False for buffer in range(len(sizes)))
    return Problem(tuple(sizes), tuple(makes), tuple(reads), stays, given=(0,))
