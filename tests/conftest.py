"""Shared by all tests: where the real model files are, and which modules are skipped without the extras."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
# Hypothesis limits an example to 200 ms of elapsed time, which a busy machine exceeds.
settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")
# On GitHub every command prints two more lines.
os.environ.pop("GITHUB_ACTIONS", None)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real models and measurements that is kept beside the project."""
    folder = Path(os.environ.get("SIZEUP_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("the folder 'shared' is not beside the project (SIZEUP_SHARED names another place)")
    return folder


# What the extras bring, and what comes with it.
PACKAGES = frozenset(
    (
        "ai_edge_litert", "duckdb", "flatbuffers", "ml_dtypes", "onnx", "onnxruntime",
        "ethosu", "pandas", "pyarrow", "ray", "tflite_micro", "torch",
    )
)  # fmt: skip


class ModuleOfExtras(pytest.Module):
    """A test module that is skipped if it imports a package of an extra that is not installed."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """The tests of the module; any other import that fails is an error."""
        try:
            return super().collect()
        except self.CollectError as error:
            cause = error.__cause__
            if isinstance(cause, ModuleNotFoundError) and cause.name in PACKAGES:
                pytest.skip(f"{cause.name} is not installed", allow_module_level=True)
            raise


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Skip test modules of missing extras, unless SIZEUP_EXTRAS=required says that all are installed."""
    if os.environ.get("SIZEUP_EXTRAS") == "required":
        return None
    module: pytest.Module = ModuleOfExtras.from_parent(parent, path=module_path)
    return module


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """If coverage is measured, record the next lines as reached by this test: tools/mutants.py asks."""
    measured = sys.modules.get("coverage")
    coverage = measured.Coverage.current() if measured else None
    if coverage is not None:
        coverage.switch_context(item.nodeid.partition("[")[0])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Append the tests that pass to the file that SIZEUP_RECORD_PASSED names."""
    path = os.environ.get("SIZEUP_RECORD_PASSED")
    if path and report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\n")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests in the file that SIZEUP_SKIP_PASSED names."""
    path = Path(os.environ.get("SIZEUP_SKIP_PASSED", ""))
    if not path.is_file():
        return
    passed = set(path.read_text("utf-8").splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]
