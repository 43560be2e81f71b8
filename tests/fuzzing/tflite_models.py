"""TFLite files: seeds, and mutants whose fields are changed one by one."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from formats.tflite.factory import File, flatbuffers, options, quantized, schema
from fuzzing.flatbuffer_layout import Site, sites
from fuzzing.values import INTEGERS, TEXTS, changed_bytes, integer, number

_LARGEST_SEED = 20_000
_MOST_SHARED = 60  # generated single-operator files at most
_CACHED = 4096


def seeds(folder: Path) -> list[bytes]:
    """One file per kernel of TFLite Micro, files with rare tables, and the smallest real ones if present."""
    from micro_kernels import CASES

    found = [case.pack() for case in CASES]
    found += [rare_tables(), chain(), offline_plan()] * 3
    return [*found, *_shared()]


def _shared() -> list[bytes]:
    top = Path(os.environ.get("SIZEUP_SHARED", Path(__file__).resolve().parents[3] / "shared"))
    paths = sorted(top.glob("boards/generated/*.tflite"))
    paths = [*paths[:: max(1, len(paths) // _MOST_SHARED)], *sorted(top.glob("models/*.tflite"))]
    return [each.read_bytes() for each in paths if each.stat().st_size <= _LARGEST_SEED]


def rare_tables() -> bytes:
    """Control flow, several subgraphs, signatures, metadata, sparse and quantized weights, variables."""
    file = File()
    main = file.main
    flag, data = (
        main.tensor("f", (1,), "BOOL"),
        main.tensor("x", (1, 8), "INT8", quantization=quantized([0.5])),
    )
    out = main.tensor("y", (1, 4), shapeSignature=[-1, 4])
    main.op("IF", [flag, data], [out], options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2))
    state = main.tensor("state", (1, 4), isVariable=True)
    sparse = main.tensor("s", (4, 4), data=np.zeros(4, np.float32), sparsity=_sparsity())
    dense, total = main.tensor("d", (4, 4)), main.tensor("t", (1, 4))
    main.op("DENSIFY", [sparse], [dense])
    main.op("FULLY_CONNECTED", [out, dense, -1], [total], options("FullyConnectedOptions"))
    final = main.tensor("z", (1, 4))
    main.op("ADD", [total, state], [final], options("AddOptions"))
    main.op("TheirOwn", [final], [main.tensor("own", (1, 4))], customOptions=list(b"\1\2\3\4"))
    main.ends([flag, data], [final])
    for name in ("then", "else"):
        graph = file.subgraph(name)
        source, result = graph.tensor("x", (1, 8), "INT8"), graph.tensor("net/y", (1, 4))
        weights = graph.tensor("w", (4, 8), "INT4", bytes(16), quantization=quantized([1, 2, 3, 4], [0] * 4))
        graph.op("FULLY_CONNECTED", [source, weights, -1], [result], options("FullyConnectedOptions"))
        graph.ends([source], [result])
    _sign(file, [("flag", flag), ("data", data)], [("result", final)])
    add_metadata(file, "min_runtime_version", b"1.5.0".ljust(16, b"\0"))
    return file.pack()


def chain() -> bytes:
    """A small convolutional network with a reshape and a softmax, quantized."""
    file = File()
    main = file.main

    def tensor(
        name: str, shape: tuple[int, ...], kind: str = "INT8", data: Any = None, scales: int = 1
    ) -> int:
        return main.tensor(name, shape, kind, data, quantization=quantized([0.05] * scales, [0] * scales))

    image = tensor("image", (1, 8, 8, 3))
    weights = tensor("w", (4, 3, 3, 3), data=bytes(108), scales=4)
    bias = tensor("b", (4,), "INT32", bytes(16), scales=4)
    maps = tensor("maps", (1, 4, 4, 4))
    settings = options("Conv2DOptions", strideH=2, strideW=2, padding=schema.Padding.SAME)
    main.op("CONV_2D", [image, weights, bias], [maps], settings)
    pooled = tensor("pooled", (1, 2, 2, 4))
    window = options("Pool2DOptions", strideH=2, strideW=2, filterHeight=2, filterWidth=2, padding=1)
    main.op("AVERAGE_POOL_2D", [maps], [pooled], window)
    shape = main.tensor("shape", (2,), "INT32", np.array([1, 16], np.int32))
    flat = tensor("flat", (1, 16))
    main.op("RESHAPE", [pooled, shape], [flat], options("ReshapeOptions", newShape=[1, 16]))
    scores = tensor("scores", (1, 16))
    main.op("SOFTMAX", [flat], [scores], options("SoftmaxOptions", beta=1.0))
    main.ends([image], [scores])
    return file.pack()


def offline_plan() -> bytes:
    """Two operators whose tensors the file places in the arena itself."""
    file = File()
    x, y, z = (file.main.tensor(name, (1, 16)) for name in "xyz")
    file.main.op("RELU", [x], [y])
    file.main.op("LOGISTIC", [y], [z])
    file.main.ends([x], [z])
    plan = np.array([1, 0, 3, 0, 64, 128], np.int32)
    add_metadata(file, "OfflineMemoryAllocation", plan.tobytes())
    return file.pack()


def add_metadata(file: File, name: str, content: bytes) -> None:
    """Add an entry of metadata to a file."""
    entry = schema.MetadataT()
    entry.name, entry.buffer = name, file.buffer(content)
    file.model.metadata = [*(file.model.metadata or []), entry]


def _sign(file: File, inputs: list[tuple[str, int]], outputs: list[tuple[str, int]]) -> None:
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = "serving_default", 0
    for field, named in (("inputs", inputs), ("outputs", outputs)):
        entries = []
        for name, index in named:
            entry = schema.TensorMapT()
            entry.name, entry.tensorIndex = name, index
            entries.append(entry)
        setattr(signature, field, entries)
    file.model.signatureDefs = [signature]


def _sparsity() -> Any:
    """Four rows with one number each, the columns compressed."""
    dense, compressed = schema.DimensionMetadataT(), schema.DimensionMetadataT()
    dense.denseSize, compressed.format = 4, schema.DimensionType.SPARSE_CSR
    segments, indices = schema.Int32VectorT(), schema.Uint8VectorT()
    segments.values, indices.values = [0, 1, 2, 3, 4], [0, 1, 2, 3]
    compressed.arraySegmentsType = schema.SparseIndexVector.Int32Vector
    compressed.arrayIndicesType = schema.SparseIndexVector.Uint8Vector
    compressed.arraySegments, compressed.arrayIndices = segments, indices
    sparsity = schema.SparsityParametersT()
    sparsity.traversalOrder, sparsity.dimMetadata = [0, 1], [dense, compressed]
    return sparsity


def mutate(content: bytes, random: Random) -> bytes:
    """Change fields in place, repack the file as objects, or change raw bytes."""
    choice = random.random()
    if choice < 0.1:
        return changed_bytes(content, random)
    if choice < 0.25:
        return _repacked(content, random)
    known = _sites(content)
    if not known:
        return changed_bytes(content, random)
    mutant = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        site = random.choice(known[random.choice(list(known))])
        with contextlib.suppress(struct.error):  # beyond the end, in an input that was damaged before
            _CHANGES[site.kind](mutant, site, known, random)
    return bytes(mutant)


@functools.lru_cache(_CACHED)
def _sites(content: bytes) -> dict[str, list[Site]]:
    return sites(content)


_Sites = dict[str, list[Site]]


def _put(mutant: bytearray, position: int, format: str, value: int) -> None:
    """Write a number, cut to the width that there is."""
    width = struct.calcsize(format)
    mutant[position : position + width] = (value % (1 << 8 * width)).to_bytes(width, "little")


def _number(mutant: bytearray, site: Site, known: _Sites, random: Random) -> None:
    if site.extra in ("<f", "<d"):
        struct.pack_into("<f", mutant, site.position, _fitting(number(random)))
        return
    old = struct.unpack_from(site.extra, mutant, site.position)[0]
    _put(
        mutant,
        site.position,
        site.extra,
        random.choice((integer(random), integer(random), old + 1, old - 1, old * 2)),
    )


def _fitting(value: float) -> float:
    """Cut to what 32 bits can hold."""
    return math.copysign(min(abs(value), 3.4e38), value) if math.isfinite(value) else value


def _length(mutant: bytearray, site: Site, known: _Sites, random: Random) -> None:
    old = struct.unpack_from("<I", mutant, site.position)[0]
    _put(
        mutant, site.position, "<I", random.choice((0, old + 1, old - 1, old // 2, old * 2, integer(random)))
    )


def _reference(mutant: bytearray, site: Site, known: _Sites, random: Random) -> None:
    """Point to another table of the same type, or anywhere."""
    same = [
        each.size
        for found in known.values()
        for each in found
        if each.kind == "reference" and each.extra == site.extra
    ]
    later = [target for target in same if target > site.position]
    if later and random.random() < 0.8:
        _put(mutant, site.position, "<I", random.choice(later) - site.position)
    else:
        _put(
            mutant,
            site.position,
            "<I",
            random.choice((0, 4, 8, random.randrange(len(mutant)), integer(random))),
        )


def _entries(mutant: bytearray, site: Site, known: _Sites, random: Random) -> None:
    """Swap, duplicate, delete or shuffle the entries of a vector of tables."""
    if not site.size:
        return
    slots = [site.position + 4 * index for index in range(site.size)]
    targets = [slot + struct.unpack_from("<I", mutant, slot)[0] for slot in slots]
    first, second = random.randrange(site.size), random.randrange(site.size)
    choice = random.randrange(4)
    if choice == 0:
        targets[first], targets[second] = targets[second], targets[first]
    elif choice == 1:
        targets[first] = targets[second]
    elif choice == 2:
        del targets[first]
        _put(mutant, site.position - 4, "<I", len(targets))
    else:
        random.shuffle(targets)
    for slot, target in zip(slots, targets, strict=False):
        _put(mutant, slot, "<I", target - slot)


def _presence(mutant: bytearray, site: Site, known: _Sites, random: Random) -> None:
    """Leave a field out, or let it lie over another."""
    _put(mutant, site.position, "<H", 0 if random.random() < 0.8 else random.choice((2, 4, 8, 12, 65535)))


def _text(mutant: bytearray, site: Site, known: _Sites, random: Random) -> None:
    raw = random.choice(TEXTS).encode()[: site.size]
    mutant[site.position : site.position + len(raw)] = raw


_CHANGES: dict[str, Callable[[bytearray, Site, _Sites, Random], None]] = {
    "number": _number,
    "length": _length,
    "reference": _reference,
    "entries": _entries,
    "presence": _presence,
    "text": _text,
}


def _repacked(content: bytes, random: Random) -> bytes:
    """Change the file as objects, so that lists and tables may grow; in place if that cannot be packed."""
    try:
        model = schema.ModelT.InitFromPackedBuf(content, 0)
        for _ in range(random.choice((1, 1, 2, 4))):
            random.choice((_change_object, _change_object, _transplant))(model, random)
        if random.random() < 0.5:
            _share(model)
        return packed(model)
    except Exception:  # the schema's own packing has no one class for what it cannot write
        return changed_bytes(content, random)


def packed(model: Any) -> bytes:
    """The file of a model that was changed as objects."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _objects(node: Any) -> list[Any]:
    """An object and all inside it, each once."""
    found = {id(node): node}
    stack = [node]
    while stack:
        for value in vars(stack.pop()).values():
            for each in value if isinstance(value, list) else [value]:
                if hasattr(each, "__dict__") and id(each) not in found:
                    found[id(each)] = each
                    stack.append(each)
    return [*found.values()]


def _share(model: Any) -> None:
    """Write objects that are in several places once, so that the places refer to one table."""
    for each in _objects(model):
        each.Pack = functools.cache(each.Pack)


def _transplant(model: Any, random: Random) -> None:
    """Give a field what the same field of another table has."""
    found = _objects(model)
    taker = random.choice(found)
    giver = random.choice([each for each in found if type(each) is type(taker)])
    name = random.choice(list(vars(taker)))
    setattr(taker, name, getattr(giver, name))


def _change_object(node: Any, random: Random, depth: int = 0) -> None:
    """Go down to a random table and change one of its fields."""
    fields = [name for name, value in vars(node).items() if value is not None]
    inner = [name for name in fields if _is_inner(getattr(node, name))]
    if inner and depth < 8 and random.random() < 0.75:
        value = getattr(node, random.choice(inner))
        following = random.choice(value) if isinstance(value, list) else value
        if hasattr(following, "__dict__"):
            _change_object(following, random, depth + 1)
            return
    name = random.choice(list(vars(node)))
    setattr(node, name, _changed(getattr(node, name), random))


def _is_inner(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and hasattr(value[0], "__dict__")
    return hasattr(value, "__dict__") and not isinstance(value, np.ndarray)


def _changed(value: Any, random: Random) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return _changed_list(value, random)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice((*INTEGERS[:24], value + 1, value - 1))
    if isinstance(value, float):
        return _fitting(number(random))
    if isinstance(value, bytes | str):
        return random.choice(TEXTS)
    return None if value is not None else random.choice(([], [1], [0, 1, 2], "name", [2**31 - 1] * 5))


def _changed_list(value: list[Any], random: Random) -> list[Any]:
    choice = random.randrange(6)
    if choice == 0 or not value:
        return []
    if choice == 1:
        return value[:-1]
    if choice == 2:
        return [*value, random.choice(value)]
    if choice == 3:
        return value * random.choice((2, 3, 20))
    if choice == 4:
        return random.sample(value, len(value))
    numbers = isinstance(value[0], int)
    return [*value, *([integer(random) % 2**31] * random.choice((1, 7, 70)))] if numbers else value[::-1]
