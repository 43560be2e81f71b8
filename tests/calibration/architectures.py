"""Published architectures as sketches: TFLite networks that are not in any calibration."""

from __future__ import annotations

from sizeup.calibration.network_spec import NetworkBuilder, NetworkSpec


def _classified(draft: NetworkBuilder, size: int) -> NetworkSpec:
    draft.mean()
    draft.tokens()
    draft.reshape(draft.shape()[-1])
    draft.linear(size)
    return draft.build()


def mobilenet_v2(precision: str = "fp32", size: int = 224) -> NetworkSpec:
    """Sandler et al. 2018, table 2: expansion, channels, repeats, stride."""
    draft = NetworkBuilder("mobilenet_v2", "mobilenet_v2", (size, size, 3), precision)
    draft.conv(32, 3, 2, act="relu6")
    rows = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    for times, channels, repeats, first in rows:
        for index in range(repeats):
            start, stride = draft.last, first if index == 0 else 1
            if times > 1:
                draft.conv(times * draft.shape()[-1], 1, act="relu6")
            draft.depthwise(3, stride, act="relu6")
            draft.conv(channels, 1, act="")
            if index:
                draft.add(draft.last, start)
    draft.conv(1280, 1, act="relu6")
    return _classified(draft, 1000)


def resnet18(precision: str = "fp32", size: int = 224) -> NetworkSpec:
    """He et al. 2015, table 1."""
    draft = NetworkBuilder("resnet18", "resnet18", (size, size, 3), precision)
    draft.conv(64, 7, 2)
    draft.pool(2, 2)
    for level in range(4):
        for index in range(2):
            start, stride, channels = draft.last, 1 + (level > 0 and index == 0), 64 << level
            draft.conv(channels, 3, stride)
            end = draft.conv(channels, act="")
            shortcut = draft.conv(channels, 1, stride, act="", x=start) if stride > 1 else start
            draft.add(end, shortcut, "relu")
    return _classified(draft, 1000)


def vit_tiny(size: int = 224) -> NetworkSpec:
    """Touvron et al. 2021: 16x16 patches, 12 blocks of width 192 with 3 heads, without the class token."""
    draft = NetworkBuilder("vit_tiny", "vit_tiny", (size, size, 3))
    draft.conv(192, 16, 16, act="")
    draft.tokens()
    for _ in range(12):
        draft.encoder(3)
    draft.layer_norm()
    draft.mean()
    draft.reshape(192)
    draft.linear(1000)
    return draft.build()


def lstm() -> NetworkSpec:
    """Two layers over 1 s of speech."""
    draft = NetworkBuilder("lstm", "lstm", (50, 40))
    draft.recurrent("lstm", 128)
    draft.recurrent("lstm", 128)
    draft.mean()
    draft.reshape(128)
    draft.linear(12)
    return draft.build()


def squeezenet(precision: str = "fp32", size: int = 224) -> NetworkSpec:
    """Iandola et al. 2016, version 1.1."""
    draft = NetworkBuilder("squeezenet", "squeezenet", (size, size, 3), precision)
    draft.conv(64, 3, 2)
    for index, squeeze in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
        if index in (0, 2, 4):
            draft.pool(3, 2)
        narrow = draft.conv(squeeze, 1)
        wide = draft.conv(4 * squeeze, 1, x=narrow)
        draft.concat(wide, draft.conv(4 * squeeze, 3, x=narrow))
    draft.conv(1000, 1)
    draft.mean()
    return draft.build()
