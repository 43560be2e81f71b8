"""Pages of the Python API: every public name with its signature, its members and their docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import sizeup
from documentation.tables import table

# Members of these are those of the base class, which every result has.
_INHERITED_FROM = ("Result",)
_FUNCTIONS = """\
# Python functions

Every public function of `sizeup` and `sizeup.precision`, generated from the package. Values and types that
they take and return are [classes](classes.md); what they raise are [errors](errors.md).
"""
_CLASSES = """\
# Python classes

Every public class of `sizeup`, generated from the package. Results are frozen: `to_dict`, `save`,
`to_pandas` and `plot` do not compute anything again. Members that start with an underscore are not part of
the API.
"""
_ERRORS = """\
# Errors

Every exception that sizeup raises on purpose, generated from the package. The command line prints the
message without a traceback and exits with [another code than 0](../cli.md#exit-codes).

"""


def names() -> dict[str, Any]:
    """Every public name of sizeup with its value, except modules."""
    values = {name: getattr(sizeup, name) for name in sizeup.__all__}
    return {name: value for name, value in values.items() if not isinstance(value, ModuleType)}


def functions() -> Iterator[str]:
    """The page of functions."""
    yield _FUNCTIONS
    for name, value in names().items():
        if inspect.isfunction(value):
            yield from _function(f"sizeup.{name}", value)
    yield f"\n## sizeup.precision\n\n{inspect.getdoc(sizeup.precision)}\n"
    for name in sizeup.precision.__all__:
        yield from _function(f"sizeup.precision.{name}", getattr(sizeup.precision, name))


def classes() -> Iterator[str]:
    """The page of classes, and of names that are neither class nor function."""
    yield _CLASSES
    for name, value in names().items():
        if isinstance(value, type):
            if not issubclass(value, Exception):
                yield from _class(name, value)
        elif not inspect.isfunction(value):
            yield f"\n## sizeup.{name}\n\nA `{type(value).__name__}`, here `{value}`.\n"


def errors() -> Iterator[str]:
    """The page of errors: their tree, and a section per class."""
    from sizeup import errors as module

    yield _ERRORS
    tree = (inspect.getdoc(module) or "").split("\n\n")[1]
    yield f"```text\n{tree}\n```\n"
    for name, value in names().items():
        if isinstance(value, type) and issubclass(value, Exception):
            yield f"\n## sizeup.{name}\n\n"
            yield f"{_docstring(value)}\n\nA subclass of `{value.__bases__[0].__name__}`.\n"
            yield from _members(value, inherited=False)


def _function(title: str, value: Callable[..., Any]) -> Iterator[str]:
    signature = _signature(value, title.rpartition(".")[2])
    yield f"\n## {title}\n\n```python\n{signature}\n```\n\n{_docstring(value)}\n"


def _class(name: str, value: type) -> Iterator[str]:
    if not value.__module__.startswith("sizeup"):
        yield f"\n## sizeup.{name}\n\nA name for annotations: `{value.__name__}` at run time.\n"
        return
    yield f"\n## sizeup.{name}\n\n{_docstring(value)}\n"
    fields = [(_code(name), _code(type_), meaning) for name, type_, meaning in _fields(value)]
    if fields:
        yield from table(("field", "type", "meaning"), fields)
    yield from _members(value, inherited=True)


def _members(value: type, *, inherited: bool) -> Iterator[str]:
    rows = []
    for name, member in _public_members(value, inherited):
        if isinstance(member, property):
            rows.append((_code(name), _return_type(member.fget), _docstring(member)))
        else:
            function = getattr(member, "__func__", member)
            rows.append(
                (_code(_short_signature(function, name)), _return_type(function), _docstring(function))
            )
    if rows:
        yield from table(("property or method", "returns", "meaning"), rows)


def _public_members(value: type, inherited: bool) -> Iterator[tuple[str, Any]]:
    seen = set()
    for base in value.__mro__ if inherited else (value,):
        if base is not value and base.__name__ not in _INHERITED_FROM:
            continue
        for name, member in vars(base).items():
            is_method = inspect.isfunction(member) or isinstance(
                member, property | classmethod | staticmethod
            )
            if is_method and not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, member


def _fields(value: type) -> Iterator[tuple[str, str, str]]:
    """Name, type and meaning of each public field; the meaning is the comment after or before it."""
    if not dataclasses.is_dataclass(value) and not hasattr(value, "_fields"):
        return
    lines = textwrap.dedent(inspect.getsource(value)).splitlines()
    body = typing.cast(ast.ClassDef, ast.parse("\n".join(lines)).body[0]).body
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            if not name.startswith("_"):
                yield name, ast.unparse(node.annotation), _comment(lines, node)


def _comment(lines: list[str], node: ast.stmt) -> str:
    after = lines[(node.end_lineno or node.lineno) - 1][node.end_col_offset :]
    if "#" in after:
        return after.partition("#")[2].strip()
    before: list[str] = []
    for line in reversed(lines[: node.lineno - 1]):
        if not line.lstrip().startswith("#"):
            break
        before.insert(0, line.lstrip().lstrip("# "))
    return " ".join(before)


def _signature(function: Callable[..., Any], name: str) -> str:
    """The definition of a function, one parameter per line if it is long."""
    signature = inspect.signature(function)
    parameters = [str(parameter) for parameter in signature.parameters.values()]
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returns = f" -> {_annotation(signature.return_annotation)}"
    line = _plain(f"def {name}({', '.join(parameters)}){returns}")
    if len(line) <= 88:
        return line
    rows = "".join(f"    {_plain(parameter)},\n" for parameter in parameters)
    return f"def {name}(\n{rows}){_plain(returns)}"


def _short_signature(function: Callable[..., Any], name: str) -> str:
    parameters = [
        str(parameter.replace(annotation=inspect.Parameter.empty))
        if parameter.name not in ("self", "cls")
        else ""
        for parameter in inspect.signature(function).parameters.values()
    ]
    return f"{name}({', '.join(filter(None, parameters))})"


def _return_type(function: Any) -> str:
    return _code(_plain(_annotation(inspect.signature(function).return_annotation)))


def _annotation(value: Any) -> str:
    return value if isinstance(value, str) else getattr(value, "__name__", str(value))


def _plain(text: str) -> str:
    """Annotations are strings, which `inspect` prints in quotes."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def _docstring(value: Any) -> str:
    return inspect.getdoc(value) or ""


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
