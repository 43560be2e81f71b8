"""Small programs of every sort that torch.export writes, each with the sizes to read it at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from cases import CASES


@dataclass(frozen=True)
class Sample:
    """A module, the inputs that it is exported with, and what else the export or the reader takes."""

    module: Callable[[], nn.Module]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic: Any = None
    bind: Mapping[str, int] = field(default_factory=dict)
    strict: bool = False


class Function(nn.Module):
    """A module of one function, beside layers that it may call."""

    def __init__(self, function: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def _module(function: Callable[..., Any], **layers: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: Function(function, **{name: layer() for name, layer in layers.items()})


IMAGE = torch.zeros(2, 3, 16, 16)
ROWS = torch.zeros(4, 8)
SEQUENCE = torch.zeros(2, 6, 8)
TOKENS = torch.zeros(2, 6, dtype=torch.int64)
BATCH = ({0: Dim("batch", min=1, max=64)},)


class Residual(nn.Module):
    """Convolution, normalization and a sum around them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.body = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU6(), nn.Conv2d(8, 8, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.stem(x)).relu()
        result: Tensor = x + self.body(x)
        return result


class Tied(nn.Module):
    """One weight under two names, and a view of a third."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 8)
        self.head = nn.Linear(8, 32, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        result: Tensor = self.head(self.embedding(tokens))
        return result


class Buffers(nn.Module):
    """Buffers that are saved, that are not, and that a run updates."""

    scale: Tensor
    shift: Tensor
    steps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(8))
        self.register_buffer("shift", torch.ones(8), persistent=False)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.steps.add_(1)
        return x * self.scale + self.shift


class Called(nn.Module):
    """One layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(self.layer(x).relu())
        return result


class Recurrent(nn.Module):
    """A recurrent layer and what it ends with."""

    def __init__(self, layer: Callable[..., nn.Module], **options: Any) -> None:
        super().__init__()
        self.layer = layer(8, 5, batch_first=True, **options)

    def forward(self, x: Tensor) -> Any:
        return self.layer(x)


def _branch(self: Any, x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: self.one(a), lambda a: self.other(a).relu(), (x,))


def _nested_branches(self: Any, x: Tensor) -> Any:
    def inner(a: Tensor) -> Tensor:
        result: Tensor = torch.cond(a.mean() > 1, lambda b: b @ b, lambda b: b.sin(), (a,))
        return result

    return torch.cond(x.sum() > 0, inner, lambda a: a.cos(), (x,))


def _loop(self: Any, x: Tensor) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    start = torch.zeros((), dtype=torch.int64)
    return while_loop(  # type: ignore[no-untyped-call]
        lambda i, a: i < 5, lambda i, a: (i + 1, self.layer(a)), (start, x)
    )


def _scan(self: Any, x: Tensor) -> Any:
    from torch._higher_order_ops.scan import scan

    def step(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        total = carry + row
        return total, total * 2

    return scan(step, torch.zeros(8), x, dim=0)


def _map(self: Any, x: Tensor) -> Any:
    from torch._higher_order_ops.map import map as map_over

    return map_over(lambda row, other: row * other + 1, x, torch.ones(8))  # type: ignore[arg-type]


def _without_gradients(self: Any, x: Tensor) -> Any:
    with torch.no_grad():
        y = self.layer(x)
    return self.layer(x) + y


def _cast(self: Any, x: Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return self.layer(x)


def _sizes(self: Any, x: Tensor) -> Any:
    rows = x.shape[0] * 2
    return x.repeat(2, 1).view(rows // 2, -1), x.new_zeros(rows + 1, 3), rows


def _two_trees(self: Any, pair: tuple[Tensor, Tensor], table: dict[str, Tensor]) -> Any:
    return {"sum": pair[0] + pair[1], "product": (pair[0] * table["a"], table["b"].mean())}


def _attention(self: Any, x: Tensor) -> Any:
    q, k, v = self.qkv(x).view(x.shape[0], x.shape[1], 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def _written_attention(self: Any, x: Tensor) -> Any:
    scores = x @ x.transpose(1, 2) / 8**0.5
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ x


def _data_dependent(self: Any, x: Tensor) -> Any:
    picked = x[x[:, 0] > 0]
    return picked * 2, x.nonzero()


def _in_place(self: Any, x: Tensor) -> Any:
    y = x.clone()
    y[0] = 1.0
    y.mul_(2).add_(x)
    return y


def _plain(function: Callable[[Tensor], Any], x: Tensor = ROWS, **options: Any) -> Sample:
    return Sample(_module(lambda self, x: function(x)), (x,), **options)


_N = Dim("n", min=3, max=99)
_LINEAR = {"layer": lambda: nn.Linear(8, 8)}
_LENGTHS = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=512)}

SAMPLES: dict[str, Sample] = {
    **{f"case_{case.name}": Sample(case.make, case.inputs()) for case in CASES},
    "residual": Sample(Residual, (IMAGE,)),
    "residual_any_batch": Sample(Residual, (IMAGE,), dynamic=BATCH, bind={"x.0": 5}),
    "residual_any_size": Sample(
        Residual, (IMAGE,), dynamic=({0: Dim("b"), 2: Dim("h"), 3: Dim("w")},),
        bind={"x.0": 3, "x.2": 20, "x.3": 28},
    ),
    "automatic_sizes": Sample(
        Residual, (IMAGE,), dynamic=({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO},),
        bind={"x.0": 3, "x.2": 20, "x.3": 28},
    ),
    "tied": Sample(Tied, (TOKENS,)),
    "tied_any_length": Sample(Tied, (TOKENS,), dynamic=(_LENGTHS,), bind={"tokens.0": 3, "tokens.1": 9}),
    "buffers": Sample(Buffers, (ROWS,)),
    "called_twice": Sample(Called, (ROWS,)),
    "lstm": Sample(lambda: Recurrent(nn.LSTM), (SEQUENCE,)),
    "lstm_two_ways": Sample(lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True), (SEQUENCE,)),
    "gru": Sample(lambda: Recurrent(nn.GRU), (SEQUENCE,)),
    "rnn": Sample(lambda: Recurrent(nn.RNN), (SEQUENCE,)),
    "branch": Sample(_module(_branch, one=lambda: nn.Linear(8, 8), other=lambda: nn.Linear(8, 8)), (ROWS,)),
    "branch_any_batch": Sample(
        _module(_branch, one=lambda: nn.Linear(8, 8), other=lambda: nn.Linear(8, 8)), (ROWS,),
        dynamic={"args": ({0: Dim.DYNAMIC},)}, bind={"args_0.0": 7},
    ),
    "nested_branches": Sample(_module(_nested_branches), (torch.zeros(8, 8),)),
    "loop": Sample(_module(_loop, **_LINEAR), (ROWS,)),
    "scan": Sample(_module(_scan), (ROWS,)),
    "map": Sample(_module(_map), (ROWS,)),
    "without_gradients": Sample(_module(_without_gradients, **_LINEAR), (ROWS,)),
    "autocast": Sample(_module(_cast, **_LINEAR), (ROWS,)),
    "sizes": Sample(_module(_sizes), (ROWS,)),
    "sizes_any_batch": Sample(
        _module(_sizes), (ROWS,), dynamic={"args": ({0: Dim.DYNAMIC},)}, bind={"args_0.0": 6}
    ),
    "trees": Sample(_module(_two_trees), ((ROWS, ROWS), {"a": ROWS, "b": SEQUENCE})),
    "keywords": Sample(_module(lambda self, x, *, scale: x * scale), (ROWS,), {"scale": torch.ones(8)}),
    "plain_values": Sample(
        _module(lambda self, x, n, flag, name: x * n if flag else x), (ROWS, 3, True, "a text")
    ),
    "derived_size": Sample(
        _module(lambda self, x, y: x[1:] + y), (ROWS, torch.zeros(3, 8)),
        dynamic={"args": ({0: _N}, {0: _N - 1})},
        bind={"args_0.0": 9},
    ),
    "attention": Sample(
        _module(_attention, qkv=lambda: nn.Linear(8, 24), out=lambda: nn.Linear(8, 8)), (SEQUENCE,)
    ),
    "attention_any_length": Sample(
        _module(_attention, qkv=lambda: nn.Linear(8, 24), out=lambda: nn.Linear(8, 8)), (SEQUENCE,),
        dynamic={"args": ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)},
        bind={"args_0.0": 3, "args_0.1": 11},
    ),
    "written_attention": Sample(_module(_written_attention), (SEQUENCE,)),
    "multihead": Sample(
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0).eval(), (SEQUENCE,)
    ),
    "data_dependent": Sample(_module(_data_dependent), (ROWS,)),
    "in_place": Sample(_module(_in_place), (ROWS,)),
    "split": _plain(lambda x: torch.split(x, 3, 1)),
    "split_sizes": _plain(lambda x: torch.split(x, [3, 5], 1)[0]),
    "chunk": _plain(lambda x: x.chunk(3)),
    "unbind": _plain(lambda x: x.unbind(0)[1]),
    "einsum": _plain(lambda x: torch.einsum("ij,kj->ik", x, x)),
    "interpolate": _plain(
        lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False), IMAGE
    ),
    "grid_sample": _plain(
        lambda x: functional.grid_sample(x, torch.zeros(2, 4, 4, 2), align_corners=False), IMAGE
    ),
    "pooling": _plain(lambda x: functional.adaptive_avg_pool2d(functional.max_pool2d(x, 2), 3), IMAGE),
    "padding": _plain(lambda x: functional.pad(x, (1, 2, 0, 1), mode="reflect"), IMAGE),
    "embedding_bag": Sample(lambda: nn.EmbeddingBag(20, 4), (TOKENS,)),
    "normalizations": Sample(
        lambda: nn.Sequential(nn.GroupNorm(1, 3), nn.InstanceNorm2d(3), nn.LayerNorm((3, 16, 16))), (IMAGE,)
    ),
    "transposed": Sample(lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), (IMAGE,)),
    "convolution_1d": Sample(lambda: nn.Conv1d(6, 4, 3, padding="same"), (SEQUENCE,)),
    "convolution_3d": Sample(lambda: nn.Conv3d(3, 4, 3), (torch.zeros(1, 3, 6, 8, 8),)),
    "dilated": Sample(lambda: nn.Conv2d(3, 6, 3, dilation=2, groups=3), (IMAGE,)),
    "activations": Sample(
        lambda: nn.Sequential(nn.GELU("tanh"), nn.SiLU(), nn.Hardswish(), nn.Mish(), nn.Softmax(-1)), (ROWS,)
    ),
    "half": Sample(lambda: nn.Linear(8, 8).half(), (ROWS.half(),)),
    "brain_float": Sample(lambda: nn.Linear(8, 8).bfloat16(), (ROWS.bfloat16(),)),
    "integers": _plain(lambda x: (x + 1) // 2 % 3, TOKENS),
    "complex": _plain(lambda x: torch.fft.rfft(x).abs()),
    "sorting": _plain(lambda x: (*x.sort(-1), *x.topk(2), x.argmax(1))),
    "scatter": _plain(lambda x: torch.zeros(4, 8).scatter_add(1, torch.zeros(4, 8, dtype=torch.int64), x)),
    "gather": _plain(lambda x: x.gather(1, torch.zeros(4, 2, dtype=torch.int64))),
    "indexing": _plain(lambda x: (x[:, None, ::2], x[torch.tensor([0, 2])], x[..., -1])),
    "constants": _plain(lambda x: x * torch.tensor([2.0] * 8) + torch.arange(8)),
    "matrices": _plain(lambda x: torch.linalg.inv(x[:, :4] @ x[:, :4].T + torch.eye(4))),
    "cumulative": _plain(lambda x: (x.cumsum(0), x.logcumsumexp(1), x.var(0, unbiased=False))),
    "channels_last": Sample(
        lambda: nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last),  # type: ignore[call-overload]
        (IMAGE.to(memory_format=torch.channels_last),),
    ),
    "strictly_traced": Sample(Residual, (IMAGE,), strict=True),
    "weight_norm": Sample(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), (ROWS,)),
    "dropout": Sample(lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).eval(), (ROWS,)),
    "infinities": _plain(lambda x: x.clamp(float("-inf"), 3.5).nan_to_num(posinf=1.0)),
    "no_input": Sample(_module(lambda self: torch.ones(3, 4) @ torch.ones(4, 2)), ()),
}  # fmt: skip


def export(sample: Sample) -> torch.export.ExportedProgram:
    """The program of a sample."""
    module = sample.module().eval()
    return torch.export.export(
        module, sample.args, dict(sample.kwargs), dynamic_shapes=sample.dynamic, strict=sample.strict
    )
