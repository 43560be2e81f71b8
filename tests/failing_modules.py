"""Modules that fail on their inputs, with what the message says about each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

VALUE = 7.25  # of every input tensor; no message may have it


class Code(nn.Module):
    """Runs a function inside a module `body`."""

    class Body(nn.Module):
        """Runs the function."""

        def __init__(self, function: Callable[..., Any]) -> None:
            super().__init__()
            self.function = function

        def forward(self, *args: Any) -> Any:
            return self.function(*args)

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.body = Code.Body(function)

    def forward(self, x: Any) -> Any:
        return self.body(x)


class Masked(nn.Module):
    """Two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        result: Tensor = self.layer(x) * mask
        return result


class Tokens(nn.Module):
    """An embedding of an input whose name does not show that it has token ids."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 8)

    def forward(self, words: Tensor) -> Tensor:
        result: Tensor = self.embed(words)
        return result


class Weighted(nn.Module):
    """Puts a weight into its error."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([VALUE, 2 * VALUE]))

    def forward(self, x: Tensor) -> Tensor:
        raise ValueError(f"bad {self.weight} or {self.weight.tolist()} of {tuple(x.shape)}")


class Endless(nn.Module):
    """Calls itself."""

    def forward(self, x: Tensor) -> Any:
        return self(x)


class OtherDevice(nn.Module):
    """Creates a tensor on another device than its input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x) + torch.ones(4, device="meta")
        return result


class OnGpu(nn.Module):
    """Moves its input to a GPU."""

    def forward(self, x: Tensor) -> Tensor:
        return x.cuda()


def expecting(x: Tensor) -> Tensor:
    assert x.shape[-1] == 4, f"expected 4 features, got {x.shape[-1]}"
    return x


def bare(x: Tensor) -> Tensor:
    assert x.shape[-1] == 4
    return x


def raising(x: Tensor) -> Tensor:
    raise ValueError(f"cannot use {x} here")


def raising_lines(x: Tensor) -> Tensor:
    raise LookupError("first\nsecond\n" + "x" * 1000)


def recursing(x: Tensor) -> Any:
    return recursing(x)


def leaving(x: Tensor) -> Tensor:
    sys.exit("no license")


def branching(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x
    raise RuntimeError("the sum must be positive")


def looking_up(x: Tensor) -> Any:
    return {"a": x}["b"]


def no_attribute(x: Any) -> Any:
    return x.no_such_attribute


def not_written(x: Tensor) -> Any:
    raise NotImplementedError


_OWN = torch.library.Library("sizeup_failures", "DEF")  # type: ignore[no-untyped-call]
_OWN.define("mystery(Tensor x) -> Tensor")  # type: ignore[no-untyped-call]


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3))


IMAGE = "conv2d of {}, 8x3x3x3, 8: "
CHECK = "check the inputs"
OWN_CODE = "check the inputs and the code of the model"
# Each with the module, its inputs, and what the message says after "forward failed on INPUTS: ".
CASES: dict[str, tuple[Callable[[], nn.Module], Any, str]] = {
    "channels": (
        convolutions,
        ((1, 4, 16, 16),),
        f"in 0 (Conv2d), {IMAGE.format('1x4x16x16')}the input has 4 channels, and the layer takes 3; {CHECK}",
    ),
    "rank": (
        convolutions,
        ((3, 16),),
        f"in 0 (Conv2d), {IMAGE.format('3x16')}the input is 3x16, and conv2d takes 3 or 4 dimensions",
    ),
    "rank of 5": (
        convolutions,
        ((1, 3, 2, 16, 16),),
        f"{IMAGE.format('1x3x2x16x16')}the input is 1x3x2x16x16, and conv2d takes 3 or 4 dimensions; {CHECK}",
    ),
    "one number": (convolutions, (5,), "the input is 5, and conv2d takes 3 or 4 dimensions"),
    "int for float": (
        convolutions,
        (((1, 3, 16, 16), "int64"),),
        f"the input is int64, and the weights are float32; {CHECK}",
    ),
    "half for float": (
        convolutions,
        (((1, 3, 16, 16), "float16"),),
        f"the input is float16, and the weights are float32; {CHECK}",
    ),
    "too small": (
        convolutions,
        ((1, 3, 2, 2),),
        f"the padded input (2x2) is smaller than the kernel (3x3); {CHECK}",
    ),
    "features": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(16, 2)),
        ((1, 4),),
        f"in 2 (Linear), linear of 1x8, 2x16, 2: matrices of 1x8 and 16x2 cannot be multiplied; {CHECK}",
    ),
    "text": (
        convolutions,
        ("text",),
        f"in 0 (Conv2d): conv2d was called with a str instead of a tensor; {CHECK}",
    ),
    "None": (convolutions, (None,), "in 0 (Conv2d): conv2d was called with a NoneType instead of a tensor"),
    "dict": (
        convolutions,
        ({"x": torch.full((2,), VALUE)},),
        "in 0 (Conv2d): conv2d was called with a dict instead of a tensor",
    ),
    "list": (
        convolutions,
        ([torch.full((2,), VALUE)],),
        "in 0 (Conv2d): conv2d was called with a list instead of a tensor",
    ),
    "floats as tokens": (
        Tokens,
        ((1, 16),),
        (
            "in embed (Embedding), embedding of 100x8, 1x16: an embedding takes integers, and its input is"
            " float32; check the inputs: give token ids as integers, --input words:1x16:int64 or"
            " inputs={'words': ((1, 16), 'int64')}"
        ),
    ),
    "assertion": (
        lambda: Code(expecting),
        ((1, 5),),
        f"line LINE of failing_modules.py: AssertionError: expected 4 features, got 5; {OWN_CODE}",
    ),
    "bare assertion": (
        lambda: Code(bare),
        ((1, 5),),
        f"line LINE of failing_modules.py: assert x.shape[-1] == 4 failed; {OWN_CODE}",
    ),
    "own error": (
        lambda: Code(raising),
        (torch.full((1, 5), VALUE),),
        f"in body (Body), line LINE of failing_modules.py: ValueError: cannot use a tensor here; {OWN_CODE}",
    ),
    "own error on a shape": (
        lambda: Code(raising),
        ((1, 5),),
        "line LINE of failing_modules.py: ValueError: cannot use a tensor here",
    ),
    "weight in an error": (
        Weighted,
        ((1, 5),),
        "in Weighted, line LINE of failing_modules.py: ValueError: bad a tensor or [...] of (1, 5)",
    ),
    "lines of text": (lambda: Code(raising_lines), ((1, 5),), "LookupError: first second xxx"),
    "branch on values": (
        lambda: Code(branching),
        ((1, 5),),
        f"line LINE of failing_modules.py: RuntimeError: the sum must be positive; {OWN_CODE}",
    ),
    "missing key": (lambda: Code(looking_up), ((1, 5),), "line LINE of failing_modules.py: KeyError: 'b'"),
    "missing attribute": (
        lambda: Code(no_attribute),
        ((1, 5),),
        "AttributeError: 'Tensor' object has no attribute 'no_such_attribute'",
    ),
    "not written": (lambda: Code(not_written), ((1, 5),), f"NotImplementedError; {OWN_CODE}"),
    "exit": (lambda: Code(leaving), ((1, 5),), "SystemExit: no license"),
    "recursion": (
        lambda: Code(recursing),
        ((1, 5),),
        "in body (Body), line LINE of failing_modules.py: the model calls itself without end",
    ),
    "module that calls itself": (Endless, ((1, 5),), "in Endless: the model calls itself without end"),
    "devices": (
        OtherDevice,
        ((1, 4),),
        (
            "in OtherDevice, add of 1x4, 4: the tensors are on different devices;"
            " create tensors on the device of the input: device=x.device"
        ),
    ),
    "GPU": (
        OnGpu,
        ((1, 4),),
        "the code moves tensors to a GPU, and this PyTorch has none; remove .cuda() and .to('cuda')",
    ),
    "view": (
        lambda: Code(lambda x: x.view(3, 5)),
        ((1, 4),),
        f"in body (Body), view of 1x4: 4 elements cannot be reshaped to 3x5; {CHECK}",
    ),
    "reshape": (
        lambda: Code(lambda x: x.reshape(7, -1)),
        ((1, 4),),
        "reshape of 1x4: 4 elements cannot be reshaped to 7x-1",
    ),
    "cat": (
        lambda: Code(lambda x: torch.cat([x, x[:, :1]])),
        ((1, 4, 2),),
        "in body (Body), cat of 1x4x2, 1x1x2: ",
    ),
    "broadcast": (
        lambda: Code(lambda x: x + torch.ones(5)),
        ((1, 4),),
        "in body (Body), add of 1x4, 5: sizes 4 and 5 of dimension 1 cannot be broadcast",
    ),
    "index": (
        lambda: Code(lambda x: x[:, :, :, 0]),
        ((1, 4),),
        "line LINE of failing_modules.py: too many indices",
    ),
    "dimension": (
        lambda: Code(lambda x: x.sum(9)),
        ((1, 4),),
        "in body (Body), sum of 1x4: Dimension out of range",
    ),
    "matmul": (
        lambda: Code(lambda x: x @ torch.ones(5, 5)),
        ((1, 4),),
        "in body (Body), matmul of 1x4, 5x5: matrices of 1x4 and 5x5 cannot be multiplied",
    ),
    "bmm": (lambda: Code(lambda x: torch.bmm(x, x)), ((2, 3, 4),), "in body (Body), bmm of 2x3x4, 2x3x4: "),
    "einsum": (
        lambda: Code(lambda x: torch.einsum("ij,jk->ik", x, torch.ones(9, 9))),
        ((4, 4),),
        "in body (Body), einsum of 4x4, 9x9: ",
    ),
    "negative size": (
        lambda: Code(lambda x: torch.empty(-1, 2)),
        ((1, 4),),
        "in body (Body), empty: a tensor of -1x2 has a negative size",
    ),
    "huge size": (
        lambda: Code(lambda x: x.new_empty((1 << 40, 1 << 40))),
        ((1, 4),),
        "in body (Body), new_empty of 1x4: a tensor is too large for the memory of this machine;",
    ),
    "wrong dtype": (
        lambda: Code(lambda x: torch.linalg.svd(x.to(torch.int32))),
        ((4, 4),),
        "in body (Body), linalg_svd of 4x4: linalg.svd: Expected a floating point or complex tensor",
    ),
    "pool": (
        lambda: nn.MaxPool2d(64),
        ((1, 3, 8, 8),),
        "in MaxPool2d, max_pool2d of 1x3x8x8: Given input size: (3x8x8). Calculated output size",
    ),
    "layer norm": (lambda: nn.LayerNorm(7), ((1, 4),), "in LayerNorm, layer_norm of 1x4, 7, 7: "),
    "batch norm": (
        lambda: nn.BatchNorm2d(7),
        ((1, 3, 8, 8),),
        "in BatchNorm2d, batch_norm of 1x3x8x8, 7, 7, 7, 1 more: running_mean should contain 3 elements",
    ),
    "LSTM": (lambda: nn.LSTM(7, 8), ((5, 1, 6),), "in LSTM: input.size(-1) must be equal to input_size"),
    "own operator": (
        lambda: Code(torch.ops.sizeup_failures.mystery),
        ((1, 4),),
        "in body (Body), mystery of 1x4: sizeup_failures::mystery has no kernel for the device CPU; ",
    ),
    "NumPy": (
        lambda: Code(lambda x: torch.from_numpy(x.numpy()[9])),
        ((1, 4),),
        "line LINE of failing_modules.py: index 9 is out of bounds for axis 0 with size 1",
    ),
}
