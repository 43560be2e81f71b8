"""Frozen results as JSON: what a worker that reads untrusted files answers, which must never be a pickle."""

from __future__ import annotations

import importlib
import os
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

_CLASS = re.compile(r"sizeup(?:\.[a-z0-9_]+)+:[A-Za-z_]\w*")


def encode(value: Any) -> Any:
    """Dataclasses of sizeup, containers, texts and numbers as plain JSON; raises TypeError for others."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float, np.number, np.bool_)):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, (tuple, list)):
        return {"tuple" if isinstance(value, tuple) else "list": [*map(encode, value)]}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(content)] for key, content in value.items()]}
    if isinstance(value, os.PathLike):
        return {"path": os.fspath(value)}
    if is_dataclass(value) and not isinstance(value, type):
        content = {field.name: encode(getattr(value, field.name)) for field in fields(value)}
        return {"class": f"{type(value).__module__}:{type(value).__qualname__}", "fields": content}
    raise TypeError(f"{type(value).__name__} is not plain data")


def decode(content: Any) -> Any:
    """The value of an `encode`d content; raises ValueError for anything else."""
    if isinstance(content, list):
        raise ValueError("a list without its type")  # noqa: TRY004 - of the answer, not of an argument
    if not isinstance(content, dict):
        return content
    try:
        if "class" in content:
            return _instance(content["class"], content["fields"])
        ((kind, items),) = content.items()
        if kind == "dict":
            return {decode(key): decode(item) for key, item in items}
        return {"tuple": tuple, "list": list, "path": Path}[kind](
            items if kind == "path" else map(decode, items)
        )
    except (KeyError, TypeError, AttributeError, ImportError) as error:
        raise ValueError(f"not an answer: {error}") from error


def _instance(name: str, content: dict[str, Any]) -> Any:
    """An instance of a dataclass of sizeup: nothing else can be named."""
    if not _CLASS.fullmatch(name):
        raise ValueError("not a class of sizeup")
    module, _, class_name = name.partition(":")
    cls = vars(importlib.import_module(module))[class_name]
    if not (isinstance(cls, type) and is_dataclass(cls) and cls.__module__ == module):
        raise ValueError("not a dataclass of sizeup")
    values = {key: decode(item) for key, item in content.items()}
    instance = object.__new__(cls)
    for field in fields(cls):  # all of them, and no others
        object.__setattr__(instance, field.name, values.pop(field.name))
    if values:
        raise ValueError("unknown fields")
    return instance
