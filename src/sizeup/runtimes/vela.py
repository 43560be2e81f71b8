"""Compiles .tflite files for Arm Ethos-U with Vela, in a worker with limits of time and memory.

All figures are those that Vela reports. The worker loads this module, so it imports little.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup.errors import MissingLibrary, RunFailed, WorkerFailed, WriteError
from sizeup.files import cache_folder, write_bytes
from sizeup.runtimes.inference import bounded
from sizeup.workers import RAISED, Supervisor

if TYPE_CHECKING:
    from sizeup.targets import Target

SECONDS = 60.0
"""Time limit, including the start of the worker: large networks take a few seconds."""
MEMORY_BYTES = 1 << 30
"""Memory limit of the worker."""
_ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_PACKAGE, _EXTRA = "ethos-u-vela", "ethos-u"
_LAYOUT = 2  # of the files in the cache
_MAX_CACHED = 128
# Fields of a compilation that are figures of Vela as they are.
_FIGURES = (
    *("system_config", "memory_mode", "clock_hz", "memory_bytes", "memory_cycles", "npu_cycles"),
    *("total_cycles", "seconds", "macs", "npu_ops", "cpu_ops", "cascades", "cascaded_ops"),
)


@dataclass(frozen=True, slots=True)
class VelaOptions:
    """What Vela compiles for: its names of the accelerator, the system configuration and the memory mode."""

    accelerator: str
    system_config: str
    memory_mode: str
    clock_hz: float | None = None  # of the NPU; None: that of the system configuration


@dataclass(frozen=True, slots=True)
class _Family:
    """Vela's default configuration of a family of accelerators, with its clock in Hz."""

    macs: tuple[int, ...]
    system_config: str
    memory_mode: str
    clock_hz: float


_FAMILIES = {
    "ethos-u55": _Family((32, 64, 128, 256), "Ethos_U55_High_End_Embedded", "Shared_Sram", 500e6),
    "ethos-u65": _Family((256, 512), "Ethos_U65_Client_Server", "Dedicated_Sram_384KB", 1e9),
    "ethos-u85": _Family((128, 256, 512, 1024, 2048), "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB", 1e9),
}


@dataclass(frozen=True, slots=True)
class NpuOperator:
    """Cycles of an operator of the file: in total, of the NPU's arithmetic, and of its slowest memory."""

    index: int  # in the file; -1 for work that Vela attributes to no operator
    name: str
    cycles: int
    npu_cycles: int
    memory_cycles: int
    is_on_cpu: bool


@dataclass(frozen=True, slots=True)
class CpuOperator:
    """An operator that Vela leaves to the CPU, and its reason."""

    operator: str  # as in the file, such as `DEQUANTIZE`
    name: str  # of its output
    reason: str


@dataclass(frozen=True, slots=True)
class Compilation:
    """A network compiled by Vela: the figures of its report, and the compiled file.

    `memory_bytes` and `memory_cycles` are by memory: sram, dram, on_chip_flash, off_chip_flash. Accesses of
    memories overlap with each other and with the arithmetic, so `total_cycles` is less than their sum.
    """

    version: str  # of Vela
    accelerator: str
    system_config: str
    memory_mode: str
    clock_hz: float
    memory_bytes: Mapping[str, int]
    memory_cycles: Mapping[str, int]
    npu_cycles: int
    total_cycles: int
    seconds: float  # of the NPU, as Vela estimates them
    macs: int
    npu_ops: int  # of the optimized graph, which may have more or fewer operators than the file
    cpu_ops: int
    cascades: int
    cascaded_ops: int
    operators: tuple[NpuOperator, ...]
    cpu_operators: tuple[CpuOperator, ...]
    content: bytes = field(repr=False)  # the compiled file

    @property
    def has_dedicated_sram(self) -> bool:
        """Whether only the NPU uses the SRAM, so that the arena is in another memory."""
        return self.memory_mode.startswith("Dedicated_Sram")

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, without the compiled file and the cycles of each operator."""
        excluded = ("content", "operators", "seconds")
        figures = {name: getattr(self, name) for name in self.__slots__ if name not in excluded}
        return figures | {
            "ms": 1e3 * self.seconds,
            "cpu_operators": [asdict(operator) for operator in self.cpu_operators],
        }


def installed_version() -> str | None:
    """The version of Vela; None if it is not installed. It is not imported by this."""
    try:
        return importlib.metadata.version(_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None


def options_for(target: Target) -> VelaOptions | None:
    """Vela's options for the NPU of a target; None if Vela has no accelerator of its name."""
    unit = target.units[0]
    accelerator = unit.name.lower()
    name, _, macs = accelerator.rpartition("-")
    family = _FAMILIES.get(name)
    if family is None or not macs.isdecimal() or int(macs) not in family.macs:
        return None
    clock = None if unit.clock_hz in (None, family.clock_hz) else unit.clock_hz
    return VelaOptions(accelerator, family.system_config, family.memory_mode, clock)


def compile_for_npu(
    path: str | os.PathLike[str],
    options: VelaOptions,
    seconds: float = SECONDS,
    memory_bytes: int = MEMORY_BYTES,
) -> Compilation:
    """Compile a .tflite file; a compilation of the same content is read from a cache on disk.

    Raises MissingLibrary if Vela is not installed, and RunFailed if it does not compile the file.
    """
    version = installed_version()
    if version is None:
        raise MissingLibrary("compiling for Ethos-U", _PACKAGE, _EXTRA)
    setting = json.dumps([_LAYOUT, version, asdict(options)]).encode()
    model = Path(path).read_bytes()  # once: what is compiled has the digest of the stored compilation
    digest = hashlib.sha256(setting + b"\n" + model).hexdigest()
    stored = _read(digest)
    if stored is None:
        stored = _compile(model, options, seconds, memory_bytes)
        _write(digest, *stored)
    answer, content = stored
    return _compilation(answer, content, version, options.accelerator)


def _compile(
    model: bytes, options: VelaOptions, seconds: float, memory_bytes: int
) -> tuple[dict[str, Any], bytes]:
    with (
        tempfile.TemporaryDirectory(prefix="sizeup-vela-") as folder,
        Supervisor(memory_bytes, _ENVIRONMENT) as supervisor,
    ):
        file = Path(folder, "model.tflite")
        file.write_bytes(model)
        try:
            answer = supervisor.call(_call, str(file), asdict(options), seconds=seconds)
        except WorkerFailed as failed:
            verb = "refuses the file: " if failed.kind == RAISED else ""
            raise RunFailed(f"Vela {verb}{bounded(str(failed))}") from None
        return answer, supervisor.payload.read()


def _call(model: str, options: dict[str, Any], channel: object) -> dict[str, Any]:
    """Runs in a worker."""
    module = importlib.import_module("sizeup.runtimes.vela_compiler")
    answer: dict[str, Any] = module.compile_file(model, options, channel)
    return answer


def _compilation(answer: Mapping[str, Any], content: bytes, version: str, accelerator: str) -> Compilation:
    try:
        return Compilation(
            version=version,
            accelerator=accelerator,
            operators=tuple(
                NpuOperator(**{**row, "name": bounded(row["name"])}) for row in answer["operators"]
            ),
            cpu_operators=tuple(CpuOperator(*map(bounded, texts)) for texts in answer["cpu_operators"]),
            content=content,
            **{name: answer[name] for name in _FIGURES},
        )
    except (KeyError, TypeError) as error:
        raise RunFailed(f"the report of Vela {version} has another layout: {error}") from None


def _folder() -> Path:
    return cache_folder("vela")


def _read(digest: str) -> tuple[dict[str, Any], bytes] | None:
    """The figures and the compiled file of an earlier compilation; None if a part is missing or changed."""
    try:
        content = (_folder() / f"{digest}.tflite").read_bytes()
        checksum, _, figures = (_folder() / f"{digest}.json").read_text("utf-8").partition("\n")
        if checksum != _checksum(figures, content):
            return None
        answer: dict[str, Any] = json.loads(figures)
    except (OSError, ValueError):
        return None
    return answer, content


def _checksum(figures: str, content: bytes) -> str:
    return hashlib.sha256(figures.encode() + b"\n" + content).hexdigest()


def _write(digest: str, answer: Mapping[str, Any], content: bytes) -> None:
    """Store a compilation, and remove the oldest; a folder that cannot be written is no error."""
    folder = _folder()
    with suppress(OSError, WriteError):
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / f"{digest}.tflite", content)
        figures = json.dumps(answer)
        write_bytes(folder / f"{digest}.json", f"{_checksum(figures, content)}\n{figures}".encode())
        stored = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for old in stored[:-_MAX_CACHED]:
            old.unlink()
            old.with_suffix(".tflite").unlink(missing_ok=True)
