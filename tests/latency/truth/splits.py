"""Held-out splits. None of them depends on measured times."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from latency.truth.tables import Words
from sizeup.latency.work import Codes, Flags

_PUBLISHERS = re.compile(r"^(tf|gluon|ssl|swsl|tv|ig|legacy|adv|ens_adv|jx|dm|test|wide)_")
# Families that share their blocks under many names: held out together in the stricter split.
_KIN = (
    ("vit", r"vit_|deit|eva|beit|aim|flexivit|naflexvit"),
    ("resnet", r"(se|eca|sk|gc)?resne[xt](?!v|s)"),
    (
        "mobilenet",
        r"efficientnet|mixnet|mnasnet|semnasnet|spnasnet|fbnet|tinynet|hardcorenas|lcnet|mobilenet",
    ),
    ("maxvit", r"coatnet|coatnext|maxvit|maxxvit"),
    ("metaformer", r"poolformer|caformer|convformer"),
    ("mixer", r"gmlp|gmixer|mixer|resmlp"),
    ("regnet", r"regnet"),
)


def family(model: str) -> str:
    """The architecture that a model's name begins with: publishers and versions are no architecture."""
    match = re.match(r"[a-z]+", _PUBLISHERS.sub("", model))
    return match[0].rstrip("v") if match else model


def kin(model: str) -> str:
    """A family together with those that are built of the same blocks."""
    bare = re.sub(r"^(gc|bat|eca|ese|nf|lambda)_", "", _PUBLISHERS.sub("", model))
    return next((name for name, pattern in _KIN if re.match(pattern, bare)), family(bare))


def folds(groups: Sequence[str] | Words, count: int = 10) -> Codes:
    """Folds of about equal size that keep every group together: the largest groups first, into the least."""
    names, sizes = np.unique(np.asarray(groups), return_counts=True)
    filled = np.zeros(count)
    fold = {}
    for index in np.lexsort((names, -sizes)):
        fold[names[index]] = int(np.argmin(filled))
        filled[fold[names[index]]] += sizes[index]
    return np.array([fold[each] for each in groups], np.int64)


def every(groups: Sequence[str] | Words) -> Codes:
    """One fold per group."""
    return np.unique(np.asarray(groups), return_inverse=True)[1].astype(np.int64)


def drawn(name: str) -> int:
    """A pseudo-random number determined by a name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def sample(names: Sequence[str] | Words, one_in: int) -> Flags:
    """A random sample of one name in `one_in`, for calibration."""
    return np.array([drawn(each) % one_in == 0 for each in names], np.bool_)


def anchors(device: str, networks: Sequence[str], count: int) -> list[int]:
    """A random choice of networks that are measured on a new device."""
    order = sorted(range(len(networks)), key=lambda index: drawn(f"{device} {networks[index]}"))
    return sorted(order[:count])
