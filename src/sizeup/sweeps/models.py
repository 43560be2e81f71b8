"""The models of a sweep: their names, how another process gets them, and what identifies them."""

from __future__ import annotations

import hashlib
import importlib.util
import pickle
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

from sizeup.errors import LoadError
from sizeup.formats.digest import content_digest
from sizeup.formats.names import is_code

# A format and the bits of a file's size: models of one class take about the same time.
SizeClass: TypeAlias = tuple[str, int]

_PACKAGES = {"timm": "timm", "torchvision": "torchvision", "hf": "transformers"}


@dataclass(frozen=True, slots=True)
class Identity:
    """A model's name and a digest of what decides it: two equal files are two models, with rows each."""

    name: str
    hash: str

    @property
    def digest(self) -> str:
        """Both as one."""
        return digest_of(self.name, self.hash)


@dataclass(frozen=True, slots=True)
class Model:
    """A model by name: a path or a name that `load` takes, or what a generator made, pickled by us."""

    name: str
    source: str = ""
    made: bytes | None = None
    digest: str = ""  # of what a generator made

    def identity(self) -> Identity:
        """What tells it from other models; for a file, its content and that of weights beside it."""
        return Identity(self.name, self.digest or _hash_of(self.source))

    @property
    def file_bytes(self) -> int | None:
        """The size of its file; None where it is none."""
        path = Path(self.source)
        return path.stat().st_size if self.source and path.is_file() else None

    @property
    def size_class(self) -> SizeClass:
        """What models it is compared with to tell how long it will take."""
        size = self.file_bytes
        if size is None:
            return self.source.partition(":")[0], 0
        return Path(self.source).suffix.lower(), size.bit_length()

    def opened(self) -> Any:
        """What `load` takes: a path, a name, or the model that a factory makes."""
        if self.made is None:
            return self.source
        made = pickle.loads(self.made)
        return made() if isinstance(made, Made) else made


@dataclass(frozen=True, slots=True)
class Made:
    """A factory and its arguments, called where the model is evaluated."""

    factory: Any
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    def __call__(self) -> Any:
        """The model."""
        return self.factory(*self.args, **dict(self.kwargs))


def digest_of(*parts: str | bytes) -> str:
    """One digest of several texts."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()[:32]


def _hash_of(source: str) -> str:
    prefix, _, rest = source.partition(":")
    path = Path(rest if prefix == "hf" else source)
    path = path / "config.json" if prefix == "hf" and path.is_dir() else path
    if path.is_file() and prefix != "hf":
        return _of_file(path)
    if prefix in _PACKAGES:
        content = _of_file(path) if prefix == "hf" else ""
        return digest_of(prefix, content or rest, _version(_PACKAGES[prefix]))
    return digest_of(source, code_digest(prefix) if is_code(source) else "")


def _of_file(path: Path) -> str:
    """The digest of a file's content; of its name, where it cannot be read."""
    try:
        return content_digest(path)[:32]
    except OSError as error:
        return digest_of("unreadable", str(path), str(error.errno))
    except LoadError as error:
        return digest_of("unreadable", str(path), str(error))


def code_digest(module: str) -> str:
    """A digest of the file of a module; empty where there is none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return ""
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return ""
    return _of_file(Path(spec.origin))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
