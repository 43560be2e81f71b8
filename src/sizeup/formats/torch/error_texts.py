"""Plain statements for the texts of torch's errors, without tensor values and torch's internal names."""

from __future__ import annotations

import re
from collections.abc import Callable

MOST_LETTERS = 300
_DTYPES = {
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "signed char": "int8",
    "byte": "uint8",
    "unsigned char": "uint8",
    "bool": "bool",
    "c10::half": "float16",
    "half": "float16",
    "c10::bfloat16": "bfloat16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "double": "float64",
}


def _dtype(name: str) -> str:
    plain = name.lower().removeprefix("torch.").removesuffix("tensor").removeprefix("cuda.")
    return _DTYPES.get(plain, plain)


def _shape(text: str) -> str:
    """Sizes in brackets as a shape: `[1, 3]` as 1x3."""
    return "x".join(re.findall(r"-?\d+", text)) or "a scalar"


def _wrong_types(match: re.Match[str]) -> str:
    types = [name for name in match[2].split(", ") if name not in ("Tensor", "Parameter", "FakeTensor")]
    return f"{match[1]} was called with a {types[0] if types else 'value'} instead of a tensor"


# Patterns of torch's texts, with plain statements; the first that matches applies.
_STATEMENTS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (
        r"to have (\d+) channels, but got (\d+) channels",
        r"the input has \2 channels, and the layer takes \1",
    ),
    (
        r"Expected .*? input to (conv\w*?)(\d)d, but got input of size: (\[.*?\])",
        lambda m: (
            f"the input is {_shape(m[3])}, and {m[1]}{m[2]}d takes {int(m[2]) + 1} or {int(m[2]) + 2}"
            " dimensions"
        ),
    ),
    (
        r"Input type \((.+?)\) and (?:bias|weight) type \((.+?)\) should be the same",
        lambda m: f"the input is {_dtype(m[1])}, and the weights are {_dtype(m[2])}",
    ),
    (
        r"Calculated padded input size per channel: \((.+?)\). Kernel size: \((.+?)\)",
        lambda m: f"the padded input ({_shape(m[1])}) is smaller than the kernel ({_shape(m[2])})",
    ),
    (
        r"mat1 and mat2 shapes cannot be multiplied \((\S+) and (\S+)\)",
        r"matrices of \1 and \2 cannot be multiplied",
    ),
    (
        r"must have same reduction dim, but got (\[.*?\]) X (\[.*?\])",
        lambda m: f"matrices of {_shape(m[1])} and {_shape(m[2])} cannot be multiplied",
    ),
    (
        r"(?:to have|must have) the same dtype, (?:but got|got|but:)\D*?(\w+) (?:and|!=) (\w+)",
        lambda m: f"the operands are {_dtype(m[1])} and {_dtype(m[2])}",
    ),
    (r"^(\w+)\(\) received an invalid combination of arguments - got \((.*?)\)", _wrong_types),
    (
        r"^(\w+)\(\): argument '(\w+)' \(position \d+\) must be (?:a )?(.+?), not (\w+)",
        r"\1 takes a \3 as \2, not a \4",
    ),
    (
        r"scalar types: Long, Int; but got (\S+)",
        lambda m: f"an embedding takes integers, and its input is {_dtype(m[1])}",
    ),
    (
        r"tensors used as indices must be long, int, byte or bool|to have scalar type (?:Long|Int)",
        "the indices are not integers",
    ),
    (r"device (?:meta|cpu|cuda)\S* is not on the expected device|two (?:different )?devices", "devices"),
    (
        r"not compiled with CUDA|no NVIDIA|CUDA (?:driver|error)|not linked with support for (?:cuda|mps)",
        "gpu",
    ),
    (r"allocat\w* memory|out of memory|DefaultCPUAllocator|calculation overflowed|bad_alloc", "memory"),
    (
        r"shape '(\[.*?\])' is invalid for input of size (\d+)",
        lambda m: f"{int(m[2]):,} elements cannot be reshaped to {_shape(m[1])}",
    ),
    (
        r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)[a-z -]*(\d+)",
        r"sizes \1 and \2 of dimension \3 cannot be broadcast",
    ),
    (r"Attempting to broadcast|not broadcastable|cannot be broadcast", "the shapes cannot be broadcast"),
    (
        r"negative dimension (-\d+): (\[.*?\])",
        lambda m: f"a tensor of {_shape(m[2])} has a negative size",
    ),
    (r"Could not run '(\S+?)' with arguments from the '(\w+)'", r"\1 has no kernel for the device \2"),
    (r"no fake impl|no meta kernel|cannot run on fake|Unsupported.*operator", "without data"),
    (
        r"\.numpy\(\) is not supported|Cannot (?:copy|access data)|invalid python storage|no storage",
        "the code reads tensor values",
    ),
    (r"data.dependent|_local_scalar_dense|Eq\(u\d+|unbacked", "a decision depends on tensor values"),
)
# Short statements of the table, with their full text.
DEVICES = "the tensors are on different devices"
NO_GPU = "the code moves tensors to a GPU, and this PyTorch has none"
NO_MEMORY = "a tensor is too large for the memory of this machine"
NO_DATA = "an operator cannot run without data"
_FULL = {"devices": DEVICES, "gpu": NO_GPU, "memory": NO_MEMORY, "without data": NO_DATA}
# Words of torch's implementation: a text with one of them is not shown.
_INTERNAL = re.compile(
    r"fake|meta tensor|dispatch|c10|at::|aten::|symint|symbool|guard|\bu\d+\b|backend|http|proxy|subclass"
    r"|__\w+__|torch\._|unhinted|\.cpp|\.h:|frame #|schema|nonetype_",
    re.IGNORECASE,
)
_UNKNOWN = "torch refuses these shapes, dtypes or arguments"


def plain_statement(text: str) -> str:
    """A torch error as one plain statement, without torch's internal names and tensor values."""
    first = without_values(text.strip()).partition("\n")[0]
    for pattern, statement in _STATEMENTS:
        match = re.search(pattern, text, re.IGNORECASE)
        if match is not None:
            plain = statement(match) if callable(statement) else match.expand(statement)
            return _FULL.get(plain, plain)
    if not first or _INTERNAL.search(first):
        return _UNKNOWN
    return shortened(first.rstrip("."))


def own_statement(text: str) -> str:
    """The text of an error that a model's own code raised, on one line and without tensor values."""
    plain = " ".join(without_values(text).split())
    return shortened(plain.partition(" Exception raised from ")[0])


def shortened(text: str) -> str:
    """A text of at most MOST_LETTERS letters."""
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."


_REPRESENTATION = re.compile(r"(?:Parameter containing:\s*)?\b(?:\w*Tensor|tensor|Parameter|array)\(")
_FLOATS = re.compile(r"\[[^\[\]]*\d\.\d*[^\[\]]*\]")
_MEMORY_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SIZE = re.compile(r"size=\(([\d, ]*)\)")


def without_values(text: str) -> str:
    """A text in which printed tensors and lists of floats are replaced by `a tensor` and `[...]`."""
    parts, rest = [], _MEMORY_ADDRESS.sub("", text)
    while True:
        match = _REPRESENTATION.search(rest)
        if match is None:
            break
        content, following = _balanced(rest[match.end() :])
        size = _SIZE.search(content)
        parts += [rest[: match.start()], f"a tensor of {_shape(size[1])}" if size else "a tensor"]
        rest = following
    result, count = "".join((*parts, rest)), 1
    while count:
        result, count = _FLOATS.subn("\0", result)  # inner lists first
    result = re.sub(r"\[[\s,\0]*\0[\s,\0]*\]", "\0", result)
    return result.replace("\0", "[...]").replace("FakeTensor", "Tensor")


def _balanced(text: str) -> tuple[str, str]:
    """The text before the parenthesis that closes an open one, and the text after it."""
    depth = 1
    for index, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if not depth:
            return text[:index], text[index + 1 :]
    return text, ""
