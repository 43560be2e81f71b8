"""The page of schemas: every key of the JSON documents and every column of the Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from documentation.tables import table
from sizeup.sweeps.schema import FIELDS

_HEAD = """\
# JSON and Parquet schemas

Every key and column that sizeup writes for other programs, generated from the schemas that ship with the
package.

**Stability.** Within a `schema_version` keys are only added: none is removed, renamed, or given another
type, unit or meaning. A change that would break a reader increases `schema_version`, and the
[changelog](../changelog.md) names it. Columns of Parquet files are only added too; `version` is the sizeup
that wrote a row. Order of keys, texts for people (`notes`, `reason`, `provenance`) and the numbers of
estimates are not part of the promise. Unknown values are `null`, never 0. Read only the keys that you need,
and accept further ones.
"""
DOCUMENTS = (
    (
        "sizeup.render.data",
        "schema.json",
        "JSON of analyze",
        "`sizeup analyze MODEL --json`, `-o report.json`, `Report.to_dict()`",
    ),
    (
        "sizeup.serving.render",
        "llm_schema.json",
        "JSON of llm",
        "`sizeup llm CONFIG --json`, `Serving.to_dict()`",
    ),
)
_PARQUET = """
## Parquet of sweep

The rows that `sizeup sweep` writes ([where](../sweeping.md#the-store)) and `sizeup query` reads, one per
point.
"""


def page() -> Iterator[str]:
    """The page."""
    yield _HEAD
    for package, file, title, source in DOCUMENTS:
        resource = f'importlib.resources.files("{package}") / "{file}"'
        yield f"\n## {title}\n\n{source}. The JSON Schema: `{resource}`.\n"
        schema = json.loads((files(package) / file).read_text("utf-8"))
        yield from table(("key", "type", "meaning"), _keys(schema, schema, ""))
    yield _PARQUET
    yield from table(
        ("column", "type", "meaning"), ((f"`{row.name}`", row.type, row.meaning) for row in FIELDS)
    )


def _keys(schema: dict[str, Any], node: dict[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """Every key below a node with its type and meaning; alternatives are listed one after the other."""
    node = _resolved(schema, node)
    for alternative in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from _keys(schema, alternative, path)
    if "items" in node:
        yield from _keys(schema, node["items"], f"{path}[]")
    for name, child in node.get("properties", {}).items():
        key = f"{path}.{name}".lstrip(".")
        resolved = _resolved(schema, child)
        is_optional = name not in node.get("required", ())
        yield (
            f"`{key}`",
            _type(schema, child) + (", optional" if is_optional else ""),
            resolved.get("description", ""),
        )
        yield from _keys(schema, child, key)


def _resolved(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref")
    if reference is None:
        return node
    return {**schema["$defs"][reference.rpartition("/")[2]], **node}


def _type(schema: dict[str, Any], node: dict[str, Any]) -> str:
    node = _resolved(schema, node)
    if "const" in node:
        return f"`{json.dumps(node['const'])}`"
    if "enum" in node:
        return " or ".join(f"`{json.dumps(value)}`" for value in node["enum"])
    options = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    if options:
        return " or ".join(dict.fromkeys(_type(schema, option) for option in options))
    types = node.get("type", "any")
    return " or ".join(types) if isinstance(types, list) else types
