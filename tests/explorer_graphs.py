"""The graphs that Model Explorer's own adapters make of model files, and node data as its own types read it.

Run by an interpreter that has Model Explorer: paths in, JSON out. It needs nothing of this project.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any


def graphs(path: str) -> list[dict[str, Any]]:
    """The graphs that the adapter of a file's format makes, as plain data."""
    if path.endswith(".onnx"):
        from model_explorer_onnx.main import ONNXAdapter

        return [_plain(each) for each in ONNXAdapter().convert(path, {})["graphs"]]
    from model_explorer.builtin_tflite_flatbuffer_adapter import BuiltinTfliteFlatbufferAdapter

    collections = BuiltinTfliteFlatbufferAdapter().convert(path, {})["graphCollections"]
    return [_plain(graph) for each in collections for graph in _plain(each)["graphs"]]


def node_data(path: str) -> dict[str, Any]:
    """What Model Explorer's own classes hold after reading node data, written again by them."""
    from dacite import from_dict
    from model_explorer.node_data_builder import GraphNodeData, ModelNodeData

    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - of the same age as the package
        content = json.load(file)
    for data in content.values():
        for result in data["results"].values():
            if result["value"] == "unknown":
                result["value"] = -1  # the classes declare numbers, the page shows texts as well
    read = ModelNodeData({key: from_dict(GraphNodeData, value) for key, value in content.items()})
    found: dict[str, Any] = json.loads(read.to_json_string())
    return found


def _plain(value: Any) -> Any:
    is_instance = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return dataclasses.asdict(value) if is_instance else value


def _nodes(graph: dict[str, Any]) -> dict[str, Any]:
    return {
        node["id"]: {
            "label": node["label"],
            "attributes": {each["key"]: each["value"] for each in node.get("attrs", ())},
            "outputs": [
                {each["key"]: each["value"] for each in output["attrs"]} for output in node["outputsMetadata"]
            ],
        }
        for node in graph["nodes"]
    }


if __name__ == "__main__":
    answer = {
        path: node_data(path) if path.endswith(".json") else {g["id"]: _nodes(g) for g in graphs(path)}
        for path in sys.argv[1:]
    }
    sys.stdout.write(json.dumps(answer))
