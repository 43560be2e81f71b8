"""Small networks trained here on scikit-learn's handwritten digits: real images, the same ones every time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

_CLASSES = 10
_TEST_SHARE = 3  # every third image, in an order that is shuffled once
_EPOCHS, _BATCH, _RATE = 16, 64, 1e-2


class Digits(NamedTuple):
    """Images of 1 x 8 x 8 numbers from 0 to 1, and what they show."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]


@cache
def split() -> tuple[Digits, Digits]:
    """1,198 images to train on, 599 to judge by."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    pixels = (images[order].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    marks = labels[order].astype(np.int64)
    judged = np.arange(len(marks)) % _TEST_SHARE == 0
    return Digits(pixels[~judged], marks[~judged]), Digits(pixels[judged], marks[judged])


class Convolutional(nn.Module):
    """Four convolutions with norms, two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 32, 2), nn.ReLU(),
        )  # fmt: skip
        self.hidden = nn.Linear(32, 32)
        self.head = nn.Linear(32, _CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.head(functional.relu(self.hidden(self.features(x).flatten(1))))
        return made


class _Separable(nn.Module):
    """A depthwise and a pointwise convolution, with the input added to their output."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.last_norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.last_norm(self.pointwise(functional.relu(self.norm(self.depthwise(x)))))
        return functional.relu(x + made)


class Residual(nn.Module):
    """Depthwise and pointwise convolutions in three blocks with a sum around each."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.one = _Separable(16)
        self.widen = nn.Conv2d(16, 32, 2, stride=2)
        self.two = _Separable(32)
        self.three = _Separable(32)
        self.head = nn.Linear(32, _CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(functional.relu(self.stem(x)))
        x = self.three(self.two(functional.relu(self.widen(x))))
        made: Tensor = self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return made


NETWORKS: dict[str, Callable[[], nn.Module]] = {"convolutional": Convolutional, "residual": Residual}


@cache
def trained(name: str = "convolutional", seed: int = 0) -> nn.Module:
    """A network trained from a seed, the same one every time on one machine; leave it as it is."""
    train, _ = split()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return _train(
                NETWORKS[name](), torch.from_numpy(train.images), torch.from_numpy(train.labels)
            ).eval()
    finally:
        torch.set_num_threads(threads)


def _train(module: nn.Module, images: Tensor, labels: Tensor) -> nn.Module:
    steps = -(-len(labels) // _BATCH) * _EPOCHS
    optimizer = torch.optim.AdamW(module.parameters(), _RATE, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps)
    module.train()
    for _ in range(_EPOCHS):
        for picked in torch.split(torch.randperm(len(labels)), _BATCH):
            optimizer.zero_grad()
            torch.autograd.backward(functional.cross_entropy(module(images[picked]), labels[picked]))
            optimizer.step()
            schedule.step()
    return module


@cache
def folded(name: str = "convolutional", seed: int = 0) -> nn.Module:
    """The same network with its norms within its weights, as exporters leave it."""
    module = copy.deepcopy(trained(name, seed))
    for parent in list(module.modules()):
        for (first, conv), (second, norm) in pairwise(parent.named_children()):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(parent, first, fuse_conv_bn_eval(conv, norm))
                setattr(parent, second, nn.Identity())
    return module


def accuracy(module: nn.Module) -> float:
    """The share of test images that a network gets right."""
    _, test = split()
    with torch.inference_mode():
        classes = module(torch.from_numpy(test.images)).argmax(1).numpy()
    return float((classes == test.labels).mean())
