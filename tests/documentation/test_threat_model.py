"""The threat model names a test for each attack."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
TABLE = PAGE.partition("## Attacks on the gate")[2].partition("\n## ")[0]
LINES = [line for line in TABLE.splitlines() if line.startswith("| ") and "**" not in line]
ROWS = [line.strip("|").split("|") for line in LINES]


def test_every_attack_has_a_test_that_exists() -> None:
    attacks = [row for row in ROWS if row[0].strip() != "attack"]
    assert len(attacks) >= 20
    for attack, _, test in attacks:
        named = re.fullmatch(r" `(tests/[\w/]+\.py)::(test_\w+)` ", test)
        assert named, attack
        assert f"\ndef {named[2]}(" in (ROOT / named[1]).read_text("utf-8"), test
