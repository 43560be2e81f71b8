"""Images, points and graphs: sampling has no MACs, products around it do."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hand_written.case import Function, case, weight
from sizeup.formats.torch.zoo import import_torchvision

import_torchvision()  # declares its operators if its extension is not compiled for this torch
_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
if not hasattr(torch.ops.torchvision, "deform_conv2d"):
    _LIBRARY.define(  # type: ignore[no-untyped-call]
        "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h,"
        " SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups,"
        " SymInt offset_groups, bool use_mask) -> Tensor"
    )

    @torch.library.register_fake("torchvision::deform_conv2d")  # type: ignore[untyped-decorator]
    def _deform_conv2d(data: Tensor, kernel: Tensor, offset: Tensor, *_: Any) -> Tensor:
        return data.new_empty((data.shape[0], kernel.shape[0], *offset.shape[-2:]))


def deformable(m: Any, x: Tensor) -> Any:
    """A 3x3 convolution with learned offsets of its 9 taps."""
    offset = m.offset(x)
    mask = torch.ones(1, 9, 6, 6)
    arguments = (1, 1, 1, 1, 1, 1, 1, 1, True)
    return torch.ops.torchvision.deform_conv2d(x, m.kernel, offset, mask, m.bias, *arguments)


def detector(m: Any, x: Tensor) -> Any:
    """Boxes and scores of 16 cells, then the best boxes."""
    boxes = m.boxes(x).flatten(2).mT[0]
    scores = m.scores(x).flatten()
    return torch.ops.torchvision.nms(boxes, scores, 0.5)


def transformer(m: Any, x: Tensor) -> Any:
    """A spatial transformer: six numbers per image place its sampling grid."""
    theta = m.locate(x.flatten(1)).view(-1, 2, 3)
    return functional.grid_sample(
        x, functional.affine_grid(theta, [2, 3, 5, 5], align_corners=False), align_corners=False
    )


def capsules(m: Any, x: Tensor) -> Any:
    """Votes of 6 capsules for 3, and two rounds of routing by agreement."""
    votes = torch.einsum("bid,ijde->bije", x, m.transform)
    logits = x.new_zeros(2, 6, 3)
    for _ in range(2):
        poses = torch.einsum("bij,bije->bje", logits.softmax(-1), votes)
        logits = logits + torch.einsum("bije,bje->bij", votes, poses)
    return poses


def graph_layer(m: Any, x: Tensor, edges: Tensor) -> Any:
    """Messages along edges, summed at their targets."""
    source, target = edges
    messages = m.message(x[source])
    return m.own(x) + torch.zeros(5, 4).index_add(0, target, messages)


def graph_attention(m: Any, x: Tensor, edges: Tensor) -> Any:
    source, target = edges
    values = m.value(x)
    scores = m.score(torch.cat([values[source], values[target]], -1)).squeeze(-1).exp()
    total = torch.zeros(5).scatter_add(0, target, scores)
    weights = (scores / total[target])[:, None] * values[source]
    return torch.zeros(5, 4).scatter_add(0, target[:, None].expand(-1, 4), weights)


def codebook(m: Any, x: Tensor) -> Any:
    """The nearest of 8 codes for every position."""
    return m.codes[torch.cdist(x.flatten(0, 1), m.codes).argmin(-1)].view_as(x)


def radiance(m: Any, points: Tensor) -> Any:
    """Sines and cosines of 3 coordinates at 4 frequencies, then two layers."""
    angles = (points[..., None] * m.frequencies).flatten(-2)
    return m.out(torch.relu(m.inner(torch.cat([angles.sin(), angles.cos()], -1))))


def mixer(m: Any, x: Tensor) -> Any:
    return x + m.channels(x + m.tokens(x.mT).mT)


def pyramid(m: Any, x: Tensor) -> Any:
    fine = m.enter(x)
    coarse = m.down(fine)
    return m.out(fine + functional.interpolate(coarse, scale_factor=2, mode="nearest"))


def point_set(m: Any, x: Tensor) -> Any:
    return m.head(m.point(x).amax(1))


def splines(m: Any, x: Tensor) -> Any:
    """Seven radial basis functions per edge instead of a weight."""
    basis = torch.exp(-((x[..., None] - m.centers) ** 2))
    return torch.einsum("bis,ois->bo", basis, m.weight)


EDGES = ((2, 7), "int64")

CASES = [
    case(
        "deformable convolution",
        lambda: Function(
            deformable, offset=nn.Conv2d(2, 18, 3, padding=1), kernel=weight(4, 2, 3, 3), bias=weight(4)
        ),
        (1, 2, 6, 6),
        macs=18 * 36 * 18 + 4 * 36 * 18,  # the bilinear taps are elementwise
        params=(18 * 18 + 18) + 72 + 4,
    ),
    case(
        "boxes and non-maximum suppression",
        lambda: Function(detector, boxes=nn.Conv2d(3, 4, 1), scores=nn.Conv2d(3, 1, 1)),
        (1, 3, 4, 4),
        macs=16 * 3 * 5,
        params=12 + 4 + 3 + 1,
        unknown="torchvision.nms",  # the number of boxes that are left depends on data
    ),
    case(
        "bilinear resizing and a convolution",
        lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(2, 3, 3, bias=False)),
        (1, 2, 5, 5),
        macs=3 * 64 * 18,
        params=54,
    ),
    case(
        "bicubic resizing",
        lambda: Function(lambda m, x: functional.interpolate(x, size=(7, 7), mode="bicubic")),
        (1, 2, 4, 4),
        macs=0,
    ),
    case(
        "spatial transformer",
        lambda: Function(transformer, locate=nn.Linear(75, 6)),
        (2, 3, 5, 5),
        # The layer; the grid is elementwise by its cost rule, as is the sampling.
        macs=2 * 75 * 6,
        params=456,
    ),
    case(
        "capsules",
        lambda: Function(capsules, transform=weight(6, 3, 4, 5)),
        (2, 6, 4),
        # Votes: 2 x 6 x 3 x 4 x 5; per round, poses and agreements: 2 x 6 x 3 x 5 each.
        macs=720 + 2 * 2 * 180,
        params=360,
    ),
    case(
        "graph layer by index",
        lambda: Function(graph_layer, message=nn.Linear(3, 4, bias=False), own=nn.Linear(3, 4, bias=False)),
        (5, 3),
        EDGES,
        macs=7 * 12 + 5 * 12,  # 7 edges, 5 nodes
        params=24,
    ),
    case(
        "graph attention by scattering",
        lambda: Function(
            graph_attention, value=nn.Linear(3, 4, bias=False), score=nn.Linear(8, 1, bias=False)
        ),
        (5, 3),
        EDGES,
        macs=5 * 12 + 7 * 8,
        params=20,
    ),
    case("nearest code", lambda: Function(codebook, codes=weight(8, 4)), (2, 5, 4), macs=0, params=32),
    case(
        "radiance field",
        lambda: Function(
            radiance,
            frequencies=torch.ones(4),
            inner=nn.Linear(24, 16, bias=False),
            out=nn.Linear(16, 4, bias=False),
        ),
        (10, 3),
        macs=10 * (24 * 16 + 64),
        params=24 * 16 + 64,
    ),
    case(
        "mixer",
        lambda: Function(mixer, tokens=nn.Linear(9, 9, bias=False), channels=nn.Linear(4, 4, bias=False)),
        (2, 9, 4),
        macs=2 * (4 * 81 + 9 * 16),
        params=97,
    ),
    case(
        "feature pyramid",
        lambda: Function(
            pyramid,
            enter=nn.Conv2d(1, 2, 1, bias=False),
            down=nn.Conv2d(2, 2, 2, stride=2, bias=False),
            out=nn.Conv2d(2, 2, 3, padding=1, bias=False),
        ),
        (1, 1, 8, 8),
        macs=2 * 64 + 2 * 16 * 8 + 2 * 64 * 18,
        params=2 + 16 + 36,
    ),
    case(
        "set of points",
        lambda: Function(point_set, point=nn.Linear(3, 8, bias=False), head=nn.Linear(8, 2, bias=False)),
        (2, 50, 3),
        macs=2 * 50 * 24 + 2 * 16,
        params=40,
    ),
    case(
        "patches as tokens",
        lambda: Function(
            lambda m, x: m.layer(x.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).flatten(3)),
            layer=nn.Linear(48, 10, bias=False),
        ),
        (1, 3, 8, 8),
        macs=4 * 480,
        params=480,
    ),
    case(
        "splines instead of weights",
        lambda: Function(splines, centers=torch.zeros(7), weight=weight(5, 3, 7)),
        (4, 3),
        macs=4 * 3 * 7 * 5,
        params=105,
    ),
    case(
        "pooling pyramid",
        lambda: Function(lambda m, x: [functional.adaptive_avg_pool2d(x, size) for size in (1, 2, 3)]),
        (1, 4, 6, 6),
        macs=0,
    ),
]
