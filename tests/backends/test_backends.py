"""What a runtime does stands in its folder: nothing outside asks for its name, and a package can add one."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import sizeup
from formats.tflite.factory import File
from networks import three_convolutions
from recipes import RUNTIME
from sizeup import targets
from sizeup.backends import Needs, backend_of, fit_memory
from sizeup.cost import count
from sizeup.errors import TargetError
from sizeup.targets.backends import own_backends

SOURCE = Path(sizeup.__file__).parent
HOMES = ("backends/", "targets/")
# What only a backend may ask of a runtime. The list of runtimes prints the kernel library as data.
PRIVATE = {"micro": {"render/data/devices.py"}, "gpu_process": set()}
KERNEL_LIBRARIES = {"reference", "cmsis-nn", "esp-nn", "ethos-u"}
# Words that are names of runtimes and of something else: a basis of latencies, and formats.
AMBIGUOUS = {"vela", "torch", "tflite"}
# Engines of language models have a table of their own.
ENGINES = {"vllm"}


def names() -> set[str]:
    runtimes = targets.runtimes()
    known = {name for runtime in runtimes for name in (runtime.name, *runtime.aliases)}
    return (known | KERNEL_LIBRARIES) - AMBIGUOUS - ENGINES


def branches(text: str, known: set[str]) -> Iterator[str]:
    """Comparisons with the name of a runtime, and reads of what only a backend may ask."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            literals = {
                each.value for side in sides for each in ast.walk(side) if isinstance(each, ast.Constant)
            }
            is_name = any(ast.unparse(side).endswith("runtime.name") for side in sides)
            if is_name or not known.isdisjoint(literals):
                yield f"{node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE:
            yield f"{node.lineno}: .{node.attr}"


def test_nothing_outside_of_backends_asks_for_a_runtime_by_name() -> None:
    known, found = names(), {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        lines = list(branches(path.read_text("utf-8"), known))
        lines = [line for line in lines if name not in PRIVATE.get(line.partition(": .")[2], ())]
        if lines and not name.startswith(HOMES):
            found[name] = lines
    assert found == {}, "ask the backend: sizeup.backends.backend has the questions"


@pytest.mark.parametrize(
    "line",
    [
        'target.runtime.name == "ort"',
        "runtime.name in listed",
        'library != "cmsis-nn"',
        "bool(target.runtime.micro)",
        'verifier.runtime in ("tflm", "litert")',
    ],
)
def test_a_branch_on_a_runtime_is_seen(line: str) -> None:
    assert len(list(branches(f"if {line}: pass", names()))) >= 1


def test_every_backend_is_that_of_a_runtime_or_of_those_without_one() -> None:
    used = {type(backend_of(target)).__module__ for target in _targets()}
    assert {module.split(".")[2] for module in used} == set(own_backends())


def test_every_backend_answers_for_every_target() -> None:
    needs = Needs(three_convolutions(), count(three_convolutions()))
    for target in _targets():
        backend = backend_of(target)
        if backend.compiles_models:
            continue  # Vela takes files
        fit = fit_memory(needs, target)
        assert fit.ram.parts, target.name
        assert (fit.flash is None) == (not hasattr(backend, "stored")), target.name
        assert backend.usage(needs).peak_bytes > 0
        assert set(backend.offered_precisions) & set(target.runtime.dtypes), target.name
        assert backend.least_cycles_per_result > 0
        assert bool(backend.builds()) == backend.honors_plans


INSTALLED = RUNTIME.replace('backend = "tiny"', 'backend = "tinyrt"')
BACKEND = """
from sizeup.backends.backend import Support
from sizeup.backends.memory_need import MemoryPart
from sizeup.backends.microcontroller import Microcontroller

class Tiny(Microcontroller):
    def arena_parts(self, needs):
        return [MemoryPart("arena", 1_000, 2_000, "by its planner")]

    def stored(self, needs):
        return MemoryPart("model", needs.weight_bytes, needs.weight_bytes, "weights")

    def support(self, needs):
        kinds = {op.kind for op in needs.graph.ops}
        return Support("Tiny has no softmax" if "softmax" in kinds else None, caveats=("a made-up runtime",))
"""


def test_a_backend_that_is_not_installed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny.toml").write_text(INSTALLED)
    monkeypatch.setenv("SIZEUP_TARGETS", str(tmp_path))
    targets.clear_cache()
    with pytest.raises(TargetError, match="backend 'tinyrt' is not installed; those of sizeup: ai8x, "):
        targets.target("tinychip")


@pytest.mark.parametrize(
    ("key", "backend"),
    [('micro = "esp-nn"', "tflm"), ('micro = "ethos-u"', "vela"), ("cores = 1", "micro_unknown")],
)
def test_a_file_of_before_is_read_with_the_backend_that_its_keys_imply(
    key: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.toml").write_text(RUNTIME.replace('backend = "tiny"', key))
    monkeypatch.setenv("SIZEUP_TARGETS", str(tmp_path))
    targets.clear_cache()
    module = type(backend_of(targets.target("tinychip"))).__module__
    assert module.split(".")[2] == backend


def test_a_package_adds_a_runtime_by_one_module_and_one_data_file(tmp_path: Path) -> None:
    """The verdict, the report and the rewriting of the installed command ask it, and name it nowhere."""
    site, model = tmp_path / "site", tmp_path / "net.tflite"
    (site / "tinyrt-1.dist-info").mkdir(parents=True)
    (site / "tinyrt.py").write_text(BACKEND)
    (site / "tinyrt-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: tinyrt\nVersion: 1\n")
    points = "[sizeup.backends]\ntinyrt = tinyrt:Tiny\n"
    (site / "tinyrt-1.dist-info" / "entry_points.txt").write_text(points)
    (tmp_path / "tiny.toml").write_text(INSTALLED)
    model.write_bytes(_network())
    environment = {**os.environ, "PYTHONPATH": str(site), "SIZEUP_TARGETS": str(tmp_path / "tiny.toml")}

    def run(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "sizeup", *words]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
        return result.returncode, result.stdout + result.stderr

    code, output = run("check", str(model), "-d", "tinychip", "--json")
    check = json.loads(output)
    assert (code, check["verdict"], check["caveats"]) == (0, "fits", ["a made-up runtime"])
    ram, flash = check["limits"]
    assert (ram["need_low"], ram["need_high"], ram["limit"]) == (1_000, 2_000, 65_536)
    assert flash["need_low"] == 3 * 4 + 4_096
    code, output = run("check", str(model), "-d", "tinychip", "--ram", "1KiB")
    assert (code, "--overlap" in output) == (3, False)
    code, output = run("analyze", str(model), "-d", "tinychip")
    assert (code, "tinychip: neither its arithmetic rates" in " ".join(output.split())) == (0, True)
    code, output = run(
        "optimize", str(model), "-o", str(tmp_path / "out.tflite"), "-d", "tinychip", "--overlap"
    )
    assert (code, "tiny does not use plans stored in files" in " ".join(output.split())) == (2, True)


def _network() -> bytes:
    """Three numbers times three weights, in fp32."""
    file = File()
    ends = [file.main.tensor(name, (3,)) for name in ("in", "out")]
    weights = file.main.tensor("weights", (3,), data=np.ones(3, np.float32))
    file.main.op("MUL", [ends[0], weights], ends[1:])
    file.main.table.inputs, file.main.table.outputs = ends[:1], ends[1:]
    return file.pack()


def _targets() -> list[targets.Target]:
    known = targets.current_catalog()
    return [
        targets.Target(device, runtime)
        for device in targets.devices()
        for runtime in map(known.runtime, device.runtimes)
        if {unit.unit_class for unit in device.units} & set(runtime.units)
    ]
