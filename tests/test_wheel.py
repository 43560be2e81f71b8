"""The wheel and the source archive: the same bytes from the same sources, and nothing missing in them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import vendor_plotly
from conftest import ROOT

pytest.importorskip("hatchling", reason="the build backend; the dependency group 'build' brings it")
PACKAGE = ROOT / "src" / "sizeup"
EPOCH = "1700000000"


def build(sources: Path, folder: Path) -> dict[str, Path]:
    """Wheel and source archive of these sources, by ending."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=sources, env=environment, capture_output=True, check=True)
    return {path.suffix: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build(ROOT, tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def wheel(built: dict[str, Path]) -> zipfile.ZipFile:
    return zipfile.ZipFile(built[".whl"])


def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
    return message_from_bytes(wheel.read(name))


def test_the_source_archive_builds_the_same_bytes_again(built: dict[str, Path], tmp_path: Path) -> None:
    # Another folder, other times of the files and no repository around them.
    with tarfile.open(built[".gz"]) as archive:
        archive.extractall(tmp_path, filter="data")
    (sources,) = tmp_path.iterdir()
    for path in sources.rglob("*"):
        os.utime(path, (1, 1))
    again = build(sources, tmp_path / "again")
    assert again.keys() == built.keys() == {".whl", ".gz"}
    for ending, path in built.items():
        assert path.name == again[ending].name
        assert path.read_bytes() == again[ending].read_bytes(), f"{path.name} differs between two builds"


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    inside = {name.removeprefix("sizeup/") for name in wheel.namelist() if name.startswith("sizeup/")}
    sources = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == sources
    assert {"py.typed", "cli/sample.tflite", "render/data/schema.json", "targets/read.py"} <= inside
    others = {name.split("/")[0] for name in wheel.namelist()} - {"sizeup"}
    assert [each.endswith(".dist-info") for each in others] == [True]


def test_licenses_of_everything_in_the_wheel_are_in_its_metadata(wheel: zipfile.ZipFile) -> None:
    fields = metadata(wheel)
    assert fields["License-Expression"] == "Apache-2.0 AND MIT"
    folder = next(name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name)
    texts = [wheel.read(f"{folder}/licenses/{name}").decode() for name in fields.get_all("License-File", [])]
    assert ["Apache License" in text for text in texts] == [True, False]
    assert ["Plotly" in text for text in texts] == [False, True]
    vendored = {path.name for path in (PACKAGE / "render" / "html" / "vendor").iterdir()}
    assert vendored == {"LICENSE", "plotly-basic.min.js", vendor_plotly.SBOM}, (
        "a license for each, and an SBOM"
    )


def test_the_sbom_states_the_vendored_bundle(wheel: zipfile.ZipFile) -> None:
    (name,) = (each for each in wheel.namelist() if ".dist-info/sboms/" in each)
    content = json.loads(wheel.read(name))
    (component,) = content["components"]
    bundle = wheel.read("sizeup/render/html/vendor/plotly-basic.min.js")
    assert component["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(bundle).hexdigest()}]
    assert f"v{component['version']}\n".encode() in bundle[:100]
    assert vendor_plotly.sbom(component["version"], bundle).encode() == wheel.read(name)


def test_the_version_is_that_of_the_metadata(wheel: zipfile.ZipFile, built: dict[str, Path]) -> None:
    version = metadata(wheel)["Version"]
    assert built[".whl"].name == f"sizeup-{version}-py3-none-any.whl"
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert text.count(f'"{version}"') == 1, "the one place of the version"
    assert [path for path in PACKAGE.rglob("*.py") if f'"{version}"' in path.read_text("utf-8")] == []


def test_twine_accepts_both(built: dict[str, Path]) -> None:
    pytest.importorskip("twine", reason="the dependency group 'build' brings it")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built.values())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
