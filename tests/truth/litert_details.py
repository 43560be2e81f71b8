"""What the LiteRT interpreter itself says of a model. Run in a process of its own: some files crash it.

    python litert_details.py FILE.tflite [run]

prints one JSON object: the tensors and operators of the main graph and, with `run`, what DENSIFY made of
sparse weights, by the index of its input. It shares no code with sizeup.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import numpy as np
from ai_edge_litert import interpreter as litert


def _constant(model: Any, tensor: dict[str, Any]) -> dict[str, Any] | None:
    """Where a constant lies in memory and what it holds; before allocation only constants are there."""
    # Asking for a resource's content crashes the process; sparse content does not have its shape's size.
    if tensor["dtype"] is np.object_ or tensor["dtype"] is None or tensor["sparsity_parameters"]:
        return None
    try:
        view = model.tensor(tensor["index"])()
    except ValueError:
        return None
    return {
        "address": view.__array_interface__["data"][0],
        "bytes": view.nbytes,
        "sha256": hashlib.sha256(view.tobytes()).hexdigest(),
    }


def _tensor(model: Any, tensor: dict[str, Any], resources: set[int]) -> dict[str, Any]:
    parameters = tensor["quantization_parameters"]
    return {
        "index": tensor["index"],
        "shape": tensor["shape"].tolist(),
        "dtype": None if tensor["dtype"] is None else np.dtype(tensor["dtype"]).name,
        "scales": [float(scale) for scale in parameters["scales"]],
        "zero_points": parameters["zero_points"].tolist(),
        "axis": parameters["quantized_dimension"],
        "is_sparse": bool(tensor["sparsity_parameters"]),
        "constant": None if tensor["index"] in resources else _constant(model, tensor),
    }


def _densified(model: Any, operators: list[dict[str, Any]]) -> dict[int, str]:
    model.allocate_tensors()
    model.invoke()
    return {
        each["inputs"][0]: hashlib.sha256(model.get_tensor(each["outputs"][0]).tobytes()).hexdigest()
        for each in operators
        if each["name"] == "DENSIFY"
    }


def main(path: str, run: str = "") -> None:
    """Print what the interpreter knows before it allocates anything, and what a run tells beyond that."""
    model = litert.Interpreter(
        model_path=path,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=bool(run),
    )
    operators = [
        {"name": each["op_name"], "inputs": each["inputs"].tolist(), "outputs": each["outputs"].tolist()}
        for each in model._get_ops_details()
    ]
    handles = {"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"}
    resources = {
        index
        for each in operators
        if each["name"] in handles
        for index in (each["outputs"] if each["name"] == "VAR_HANDLE" else each["inputs"][:1])
    }
    tensors = [_tensor(model, each, resources) for each in model.get_tensor_details()]
    densified = _densified(model, operators) if run else {}
    print(json.dumps({"tensors": tensors, "operators": operators, "densified": densified}))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
