"""What tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.running import Ended, Run
from sizeup.cli import main


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process, 80 columns wide and without a terminal."""
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def ended(*arguments: str | Path) -> Ended:
        with pytest.raises(SystemExit) as left:
            main([str(each) for each in arguments])
        captured = capfd.readouterr()
        return Ended(int(left.value.code or 0), captured.out, captured.err)

    return ended


@pytest.fixture
def keywords(shared: Path) -> Path:
    """A small real model that is known in full."""
    pytest.importorskip("ai_edge_litert")
    return shared / "models" / "mlperf_kws_int8.tflite"
