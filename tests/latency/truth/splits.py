"""What is held out, and from what. Nothing here looks at a measured time."""

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
    found = re.match(r"[a-z]+", _PUBLISHERS.sub("", model))
    return found[0].rstrip("v") if found else model


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
    """A fold for every group: each is held out by itself."""
    return np.unique(np.asarray(groups), return_inverse=True)[1].astype(np.int64)


def drawn(name: str) -> int:
    """A number that a name alone decides, as if drawn by lot."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def sample(names: Sequence[str] | Words, one_in: int) -> Flags:
    """One name in so many, drawn by lot: what a fit may see."""
    return np.array([drawn(each) % one_in == 0 for each in names], np.bool_)


def anchors(device: str, networks: Sequence[str], count: int) -> list[int]:
    """The few networks that were measured on a new device, drawn by lot."""
    order = sorted(range(len(networks)), key=lambda index: drawn(f"{device} {networks[index]}"))
    return sorted(order[:count])
