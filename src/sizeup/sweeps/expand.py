"""Expands the entries of a spec to models, lazily: a sweep may have more models than fit in memory."""

from __future__ import annotations

import fnmatch
import importlib
import json
import os
import pickle
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sizeup.errors import SizeupError
from sizeup.files import exists, is_file, is_folder, open_regular, read_problem
from sizeup.formats.names import looks_like_code
from sizeup.patterns import Finder, is_wild
from sizeup.sweeps.models import Factory, Model, SizeClass, code_digest, digest_of
from sizeup.sweeps.spec import Spec

_ZOOS = ("timm", "torchvision")
_LIST = "@"
_LONGEST_LINE = 1 << 16  # bytes, in a list of models


def models_of(spec: Spec) -> Iterator[Model]:
    """Every model of a sweep, in the order of the spec; the models of a pattern are sorted by name."""
    for model in _all_models(spec):
        if not any(fnmatch.fnmatchcase(model.name, pattern) for pattern in spec.exclude):
            yield model


def count_models(spec: Spec) -> Counter[SizeClass] | None:
    """The number of models per size class; None if a generator has to run to count them."""
    return None if spec.generate else Counter(model.size_class for model in models_of(spec))


def _all_models(spec: Spec) -> Iterator[Model]:
    seen: set[bytes] = set()  # digests instead of names: there may be millions
    for entry in spec.models:
        for model in _expand_entry(spec, entry):
            digest = bytes.fromhex(digest_of(model.name))
            if digest not in seen:
                seen.add(digest)
                yield model
    for entry in spec.generate:
        yield from _generated_models(spec, entry)


def _expand_entry(spec: Spec, entry: str) -> Iterator[Model]:
    prefix, _, rest = entry.partition(":")
    if entry.startswith(_LIST):
        yield from _models_in_file(spec, entry)
    elif prefix == "hf":
        yield from (Model(f"hf:{name}", f"hf:{path}") for name, path in _files(spec, rest, entry))
    elif rest and not _is_file(spec, entry):
        names = _zoo(prefix, rest) if prefix in _ZOOS and is_wild(rest) else [rest]
        if not names:
            raise SizeupError(f"{entry}: no {prefix} model matches")
        yield from (Model(f"{prefix}:{name}", f"{prefix}:{name}") for name in names)
    else:
        yield from (Model(name, path) for name, path in _files(spec, entry, entry))


def _models_in_file(spec: Spec, entry: str) -> Iterator[Model]:
    """The models listed in a file, one per line."""
    path = spec.folder / entry.removeprefix(_LIST)
    try:
        with open_regular(path) as lines:
            for line in iter(partial(lines.readline, _LONGEST_LINE), b""):
                text = line.decode("utf-8").strip()
                if len(line) == _LONGEST_LINE:
                    raise SizeupError(f"{path}: a line of more than {_LONGEST_LINE:,} bytes")
                if text and not text.startswith("#"):
                    yield from _expand_entry(spec, text)
    except (OSError, UnicodeDecodeError) as error:
        raise SizeupError(f"{path}: {read_problem(error)}; expected one model per line") from None


def _files(spec: Spec, pattern: str, entry: str) -> Iterator[tuple[str, str]]:
    """Names relative to the spec's folder, and absolute paths."""
    if not is_wild(pattern) or exists(spec.folder / pattern):
        yield pattern, str(spec.folder / pattern)
        return
    try:
        matches = sorted(Finder(spec.folder, as_shell=True).paths(pattern))
    except ValueError as error:
        raise SizeupError(f"{entry}: {error}") from None
    if not matches:
        raise SizeupError(f"{entry}: no file matches in {spec.folder}")
    is_model = _is_checkpoint if spec.point_set.clusters else _is_no_folder
    for name in matches:
        if is_model(spec.folder / name):
            yield name, str(spec.folder / name)


def _is_checkpoint(path: Path) -> bool:
    """Whether a match may be a language model: a folder with its configuration, or a file."""
    if is_folder(path):
        return is_file(path / "config.json")
    return not path.name.endswith("hf_quant_config.json")  # read with the config.json next to it


def _is_no_folder(path: Path) -> bool:
    return not is_folder(path)


def _is_file(spec: Spec, entry: str) -> bool:
    is_file = not looks_like_code(entry) or os.path.lexists(spec.folder / entry)
    return is_file or (is_wild(entry) and "/" in entry.partition(":")[0])


def _zoo(prefix: str, pattern: str) -> list[str]:
    from sizeup.formats.torch import zoo_names

    return fnmatch.filter(zoo_names(prefix), pattern)


def _generated_models(spec: Spec, entry: str) -> Iterator[Model]:
    """The models of a generator of models, names, (name, model) or (name, factory, arguments)."""
    with importable(spec.folder):
        code = code_digest(entry.partition(":")[0])
        for index, item in enumerate(_generator_items(entry)):
            yield _model_of_item(entry, code, index, item)


def _generator_items(entry: str) -> Iterator[Any]:
    path, _, attribute = entry.partition(":")
    advice = "; name it as package.module:function"
    try:
        items: Iterator[Any] = iter(getattr(importlib.import_module(path), attribute)())
        advice = ""
        for item in items:
            yield item
            advice = "; the models it yielded before are in the store"
    except Exception as error:  # user code may raise anything
        raise SizeupError(f"generate {entry!r}: {type(error).__name__}: {error}{advice}") from error


def _model_of_item(entry: str, code: str, index: int, item: Any) -> Model:
    if isinstance(item, str):
        return Model(item, item)
    name, source = f"{entry.partition(':')[2]}[{index}]", item
    arguments_text = ""
    if isinstance(item, tuple) and len(item) in (2, 3) and isinstance(item[0], str):
        name, source = item[:2]
        if len(item) == 3 or (callable(source) and not hasattr(source, "forward")):
            arguments = item[2] if len(item) == 3 else ()
            source, arguments_text = _factory(source, arguments), _arguments_text(arguments)
    if isinstance(source, str):
        return Model(name, source)
    try:
        content = _pickle(source)
    except Exception as error:  # pickling may raise anything
        raise SizeupError(
            f"{name}: cannot be pickled for a worker ({type(error).__name__}: {error});"
            " yield (name, factory, arguments) with a factory at the top level of its module"
        ) from error
    return Model(name, "", content, digest_of(entry, code, name, arguments_text))


def _factory(factory: Any, arguments: Any) -> Factory:
    if isinstance(arguments, dict):
        return Factory(factory, (), tuple(arguments.items()))
    return Factory(factory, tuple(arguments) if isinstance(arguments, tuple | list) else (arguments,))


def _arguments_text(arguments: Any) -> str:
    """Arguments as text that is the same in every run."""
    return json.dumps(arguments, sort_keys=True, default=str)


def _pickle(value: Any) -> bytes:
    try:
        import cloudpickle
    except ModuleNotFoundError:
        return pickle.dumps(value)
    data: bytes = cloudpickle.dumps(value)
    return data


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Makes the modules in a folder importable inside the block."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
