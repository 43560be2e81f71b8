"""Runs the long tests at full size, and writes their results to docs/long-tests.md."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "long-tests.md"
HEAD = """# Tests at full size

CI runs these tests smaller; `make long` runs them at full size and writes this page. Run it after a change of
`sweeps` and before a release.

{when} on {cores} cores, Python {python}:

| test | result | seconds |
|---|---|---:|
"""


def run() -> list[tuple[str, str, float]]:
    """Each test marked `long`: its name, its result and its duration."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        options = ["-q", "-m", "long", "-p", "no:cacheprovider", f"--junitxml={report}"]
        command = [sys.executable, "-m", "pytest", *options]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "SIZEUP_FULL_SIZE": "1"}, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))
    return [
        (f"{case.attrib['classname']}::{case.attrib['name']}", _result(case), float(case.attrib["time"]))
        for case in cases
    ]


def _result(case: ElementTree.Element) -> str:
    others = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
    return others[0] if others else "passed"


def main() -> int:
    """Write the page; 1 if a test did not pass."""
    rows = run()
    head = HEAD.format(
        when=datetime.now(timezone.utc).date(), cores=os.cpu_count(), python=platform.python_version()
    )
    PAGE.write_text(head + "".join(f"| `{name}` | {result} | {took:.0f} |\n" for name, result, took in rows))
    return int(not rows or any(result != "passed" for _, result, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
