"""The frozen split of server measurements.

A configuration is a row without its concurrency, so that curves stay whole. One in five configurations is
frozen, by a digest of its text: no number is fitted to these rows, and they are scored once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

CONFIGURATION = (
    "model", "system", "backend", "precision_fixed", "isl", "osl", "tp_fixed", "attn_dp_fixed",
    "moe_tp_fixed", "moe_ep_fixed",
)  # fmt: skip
"""Columns that make up a configuration."""
FROZEN_SHARE = 5


def is_frozen(row: Mapping[str, str]) -> bool:
    """Whether a row belongs to the frozen part: one of `FROZEN_SHARE` configurations, by digest."""
    text = "|".join(row[name].strip().lower() for name in CONFIGURATION)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % FROZEN_SHARE == 0
