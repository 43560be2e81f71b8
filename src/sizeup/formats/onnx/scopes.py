"""Which module of the original network an operator came from."""

from __future__ import annotations

from onnx import NodeProto

# Written by torch's exporters of 2.5 and later: a list of module paths, the operator's own name last.
_NAME_SCOPES = "pkg.torch.onnx.name_scopes"


def scope_of(node: NodeProto) -> tuple[str, bool]:
    """The module path, empty at the root, and whether the exporter wrote it down beside the operator."""
    for entry in node.metadata_props:
        if entry.key == _NAME_SCOPES:
            return _from_list(entry.value), True
    name = node.name
    return (from_name(name) if "/" in name else ""), False


def _from_list(text: str) -> str:
    paths = [each.strip().strip("'\"") for each in text.strip("[] ").split(",")]
    path = paths[-2] if len(paths) > 1 else ""
    # A module that is called again is written as name@1.
    return ".".join(part.partition("@")[0] for part in path.split("."))


def from_name(name: str) -> str:
    """The module path in a name such as /layer1/layer1.0/conv1/Conv: layer1.0.conv1.

    A child of a sequence repeats its parent's name (layer1, then layer1.0), so a part that extends the
    one before takes its place.
    """
    parts: list[str] = []
    for part in name.strip("/").split("/")[:-1]:
        if parts and part.startswith(parts[-1] + "."):
            parts[-1] = part
        elif part:
            parts.append(part)
    return ".".join(parts)
