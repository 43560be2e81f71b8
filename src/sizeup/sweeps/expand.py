"""From the names in a spec to models, one by one: a sweep may have more than one cares to hold in memory."""

from __future__ import annotations

import fnmatch
import glob
import importlib
import json
import os
import pickle
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sizeup.errors import SizeupError
from sizeup.formats.names import means_code
from sizeup.sweeps.models import Made, Model, SizeClass, code_digest, digest_of
from sizeup.sweeps.spec import WILD, Spec

_ZOOS = ("timm", "torchvision")
_LIST = "@"


def models_of(spec: Spec) -> Iterator[Model]:
    """Every model of a sweep, in the order of the spec; those of a pattern by name."""
    for model in _all(spec):
        if not any(fnmatch.fnmatchcase(model.name, pattern) for pattern in spec.exclude):
            yield model


def planned(spec: Spec) -> Counter[SizeClass] | None:
    """How many models there are of each class; None if only generating them would tell."""
    return None if spec.generate else Counter(model.size_class for model in models_of(spec))


def _all(spec: Spec) -> Iterator[Model]:
    seen: set[bytes] = set()  # of digests, not of names: there may be millions
    for entry in spec.models:
        for model in _named(spec, entry):
            digest = bytes.fromhex(digest_of(model.name))
            if digest not in seen:
                seen.add(digest)
                yield model
    for entry in spec.generate:
        yield from _generated(spec, entry)


def _named(spec: Spec, entry: str) -> Iterator[Model]:
    prefix, _, rest = entry.partition(":")
    if entry.startswith(_LIST):
        yield from _listed(spec, entry)
    elif prefix == "hf":
        yield from (Model(f"hf:{name}", f"hf:{path}") for name, path in _files(spec, rest, entry))
    elif rest and not _is_file(spec, entry):
        names = _zoo(prefix, rest) if prefix in _ZOOS and _is_pattern(rest) else [rest]
        if not names:
            raise SizeupError(f"{entry}: {prefix} has no model of such a name")
        yield from (Model(f"{prefix}:{name}", f"{prefix}:{name}") for name in names)
    else:
        yield from (Model(name, path) for name, path in _files(spec, entry, entry))


def _listed(spec: Spec, entry: str) -> Iterator[Model]:
    """The models that a file names, one a line."""
    path = spec.folder / entry.removeprefix(_LIST)
    if path.exists() and not path.is_file():  # a device has no end
        raise SizeupError(f"{path}: not a file; it names one model a line")
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip() and not line.startswith("#"):
                    yield from _named(spec, line.strip())
    except OSError as error:
        raise SizeupError(f"{path}: cannot be read: {error.strerror}; it names one model a line") from None


def _files(spec: Spec, pattern: str, entry: str) -> Iterator[tuple[str, str]]:
    """Names relative to the spec's folder, and absolute paths."""
    if not _is_pattern(pattern) or (spec.folder / pattern).exists():
        yield pattern, str(spec.folder / pattern)
        return
    found = sorted(glob.glob(pattern, root_dir=spec.folder, recursive=True))  # noqa: PTH207 - absolute ones too
    if not found:
        raise SizeupError(f"{entry}: no file matches in {spec.folder}")
    for name in found:
        if not (spec.folder / name).is_dir():
            yield name, str(spec.folder / name)


def _is_file(spec: Spec, entry: str) -> bool:
    is_file = not means_code(entry) or os.path.lexists(spec.folder / entry)
    return is_file or (_is_pattern(entry) and "/" in entry.partition(":")[0])


def _is_pattern(text: str) -> bool:
    return any(sign in text for sign in WILD)


def _zoo(prefix: str, pattern: str) -> list[str]:
    from sizeup.formats.torch import zoo_names

    return fnmatch.filter(zoo_names(prefix), pattern)


def _generated(spec: Spec, entry: str) -> Iterator[Model]:
    """What a generator yields: a model or its name, (name, model) or (name, factory, arguments)."""
    with importable(spec.folder):
        code = code_digest(entry.partition(":")[0])
        for index, item in enumerate(_items(entry)):
            yield _made(entry, code, index, item)


def _items(entry: str) -> Iterator[Any]:
    path, _, attribute = entry.partition(":")
    advice = "; name it as package.module:function"
    try:
        found: Iterator[Any] = iter(getattr(importlib.import_module(path), attribute)())
        advice = ""
        for item in found:
            yield item
            advice = "; what it made before is kept"
    except Exception as error:  # it is the user's code: whatever it raises is news about it
        raise SizeupError(f"generate {entry!r}: {type(error).__name__}: {error}{advice}") from error


def _made(entry: str, code: str, index: int, item: Any) -> Model:
    if isinstance(item, str):
        return Model(item, item)
    name, made = f"{entry.partition(':')[2]}[{index}]", item
    told = ""
    if isinstance(item, tuple) and len(item) in (2, 3) and isinstance(item[0], str):
        name, made = item[:2]
        if len(item) == 3 or (callable(made) and not hasattr(made, "forward")):
            arguments = item[2] if len(item) == 3 else ()
            made, told = _with_arguments(made, arguments), _told(arguments)
    if isinstance(made, str):
        return Model(name, made)
    try:
        content = _pickled(made)
    except Exception as error:  # whatever an object raises when it is copied
        raise SizeupError(
            f"{name}: cannot be handed to a process of its own ({type(error).__name__}: {error});"
            " yield (name, factory, arguments) with a factory at the top level of its module"
        ) from error
    return Model(name, "", content, digest_of(entry, code, name, told))


def _with_arguments(factory: Any, arguments: Any) -> Made:
    if isinstance(arguments, dict):
        return Made(factory, (), tuple(arguments.items()))
    return Made(factory, tuple(arguments) if isinstance(arguments, tuple | list) else (arguments,))


def _told(arguments: Any) -> str:
    """Arguments as text, the same in every run."""
    return json.dumps(arguments, sort_keys=True, default=str)


def _pickled(made: Any) -> bytes:
    try:
        import cloudpickle
    except ModuleNotFoundError:
        return pickle.dumps(made)
    found: bytes = cloudpickle.dumps(made)
    return found


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Code beside the spec can be imported while the block lasts."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
