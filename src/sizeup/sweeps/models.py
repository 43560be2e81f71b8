"""The models of a sweep: their names, sources and digests."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pickle
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

from sizeup.errors import LoadError
from sizeup.files import is_file, is_folder
from sizeup.formats.digest import content_digest
from sizeup.formats.names import is_code

# A format and the bit length of the file size: models of one class take about the same time.
SizeClass: TypeAlias = tuple[str, int]

_LANGUAGE_MODELS = "sizeup.serving.sweeps"
_PACKAGES = {"timm": "timm", "torchvision": "torchvision", "hf": "transformers"}


@dataclass(frozen=True, slots=True)
class Identity:
    """A model's name and content digest: two equal files are two models, with separate rows."""

    name: str
    content_digest: str

    @property
    def digest(self) -> str:
        """One digest of name and content."""
        return digest_of(self.name, self.content_digest)


@dataclass(frozen=True, slots=True)
class Model:
    """A model: its name, and a path or name that `load` accepts, or a pickled object from a generator."""

    name: str
    source: str = ""
    pickled: bytes | None = None
    digest: str = ""  # of a model from a generator

    def identity(self) -> Identity:
        """Its name and content digest; for a file, of the content and its external weights."""
        return Identity(self.name, self.digest or _content_digest(self.source))

    @property
    def file_bytes(self) -> int | None:
        """The size of its file; None if it is not a file."""
        path = Path(self.source)
        return path.stat().st_size if self.source and is_file(path) else None

    @property
    def size_class(self) -> SizeClass:
        """The class of models with about the same evaluation time."""
        size = self.file_bytes
        if size is None:
            return self.source.partition(":")[0], 0
        return Path(self.source).suffix.lower(), size.bit_length()

    def load_source(self) -> Any:
        """A source for `load`: a path, a name, or the unpickled model."""
        if self.pickled is None:
            return self.source
        value = pickle.loads(self.pickled)
        return value() if isinstance(value, Factory) else value


@dataclass(frozen=True, slots=True)
class Factory:
    """A factory and its arguments, called in the worker that evaluates the model."""

    factory: Any
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    def __call__(self) -> Any:
        """Build the model."""
        return self.factory(*self.args, **dict(self.kwargs))


def language_models() -> Any:
    """What sweeps do with language models: their points, rows and digests. Imported if there are any."""
    return importlib.import_module(_LANGUAGE_MODELS)


def digest_of(*parts: str | bytes) -> str:
    """A digest of several texts."""
    sha256 = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha256.update(len(data).to_bytes(8, "little") + data)
    return sha256.hexdigest()[:32]


def _content_digest(source: str) -> str:
    prefix, _, rest = source.partition(":")
    path = Path(rest if prefix == "hf" else source)
    if prefix != "hf" and (is_file(path) or is_file(path / "config.json")):
        return _file_digest(path)
    if prefix in _PACKAGES:
        content = _file_digest(path) if prefix == "hf" else ""
        return digest_of(prefix, content or rest, _version(_PACKAGES[prefix]))
    return digest_of(source, code_digest(prefix) if is_code(source) else "")


def _file_digest(path: Path) -> str:
    """The digest of a file's content, or of its path and error if it cannot be read."""
    try:
        digest = language_models().checkpoint_digest if _is_checkpoint(path) else content_digest
        return str(digest(path))[:32]
    except OSError as error:
        return digest_of("unreadable", str(path), str(error.errno))
    except LoadError as error:
        return digest_of("unreadable", str(path), str(error))


def _is_checkpoint(path: Path) -> bool:
    return path.suffix.lower() in (".json", ".gguf") or is_folder(path)


def code_digest(module: str) -> str:
    """The digest of a module's file; empty if it has none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return ""
    if spec is None or spec.origin is None or not is_file(spec.origin):
        return ""
    return _file_digest(Path(spec.origin))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
