"""Writes the operators and kernels of the installed ONNX Runtime to src/sizeup/formats/onnx/kernels.json."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnxruntime.capi import _pybind_state as runtime

Types: TypeAlias = dict[str, set[str]]
DATA = Path(__file__).parents[1] / "src/sizeup/formats/onnx/kernels.json"
_ANY_LATER = 2**31 - 1
_FLOAT32, _FLOAT16 = "tensor(float)", "tensor(float16)"
_INTEGERS = ("tensor(int32)", "tensor(int64)")
# Operators without a kernel that the runtime computes with those of their definition, as sessions show.
_INLINED = {"CastLike", "CenterCropPad", "GroupNormalization", "HardSwish", "Mish", "SequenceMap", "Swish"}
_INLINED |= {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}
_NOT_CONVERTED = ("MeanVarianceNormalization",)  # its definition, which has no kernel for fp16, is used
_NAMES = {
    "float": "float32",
    "double": "float64",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
}


def table() -> dict[str, Any]:
    """The content of the file: the newest opsets, the sets of dtypes, and the kernels by operator."""
    kernels, functions = _kernels(), _functions()
    sets: dict[str, int] = {}
    versions: dict[str, dict[str, dict[str, list[int]]]] = defaultdict(lambda: defaultdict(dict))
    schemas = {
        (each.domain, each.name, each.since_version): each for each in runtime.get_all_operator_schema()
    }
    for (domain, name, since), schema in sorted(schemas.items()):
        types = {slot.typeStr: set(slot.types) for slot in (*schema.inputs, *schema.outputs)}
        taken = [_taken(types, k.type_constraints, name) for k in kernels[domain, name] if _serves(k, since)]
        is_function = (domain, name, since) in functions and not schema.deprecated
        if name in _INLINED and is_function:
            taken.append(_inlined(types))
        # Of its own operators, the runtime does not list which ones are defined by others.
        is_open = is_function or (domain == "com.microsoft" and bool(taken))
        defined = [_constraints(types, sets)] if is_open else []
        # The runtime lists its kernels in any order.
        rows = [_constraints(each, sets) for each in sorted(taken, key=_in_order)]
        entry = json.dumps([_slots(schema.inputs), _slots(schema.outputs), rows, defined])
        versions[domain][name].setdefault(entry, []).append(since)
    return {
        "version": ".".join(onnxruntime.__version__.split(".")[:2]),
        "source": f"ONNX Runtime {onnxruntime.__version__}, CPU execution provider on Linux, x86-64, its own"
        " lists (get_all_opkernel_def, get_all_operator_schema); operators without a kernel that it computes"
        f" with those of their definition: onnx {onnx.__version__}",
        "ir_version": _newest(lambda version: _loads("", 18, version)),
        "opsets": {"": _newest(lambda version: _loads("", version, 10)), "ai.onnx.ml": _newest(_loads_ml)},
        "dtypes": list(sets),
        "operators": {
            domain: {
                name: [[since, *json.loads(entry)] for entry, since in entries.items()]
                for name, entries in operators.items()
            }
            for domain, operators in versions.items()
        },
    }


def _kernels() -> dict[tuple[str, str], list[Any]]:
    kernels: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for kernel in runtime.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider":
            kernels[kernel.domain, kernel.op_name].append(kernel)
    return kernels


def _serves(kernel: Any, since: int) -> bool:
    """Whether a kernel is used for the operator of this version: one without an end only for its own."""
    first, last = map(int, kernel.version_range)
    return first == since or (last != _ANY_LATER and first < since <= last)


def _functions() -> set[tuple[str, str, int]]:
    schemas: Iterable[Any] = onnx.defs.get_all_schemas_with_history()
    return {
        (each.domain, each.name, each.since_version)
        for each in schemas
        if each.has_function or each.has_context_dependent_function
    }


def _slots(parameters: Any) -> list[str]:
    """The type variable of every input or output; * after the last one if it repeats, ? if types differ."""
    slots = []
    for each in parameters:
        is_repeated = each.option == runtime.schemadef.OpSchema.FormalParameterOption.Variadic
        slots.append(each.typeStr + ("*" if is_repeated else "") + ("" if each.isHomogeneous else "?"))
    return slots


def _taken(defined: Types, kernel: Any, name: str) -> Types:
    """The types that a kernel takes, as far as the operator is defined for them.

    For fp16 without a kernel, the runtime inserts conversions to fp32.
    """
    taken = {}
    for variable, types in defined.items():
        own = set(kernel.get(variable, types))
        converts = _FLOAT32 in own and name not in _NOT_CONVERTED
        taken[variable] = types & (own | {_FLOAT16} if converts else own)
    return taken


def _inlined(defined: Types) -> Types:
    """The types of an operator without a kernel: those of arithmetic have kernels for fp32 (and fp16)."""
    return {
        variable: types if "tensor(string)" in types else types & {_FLOAT32, _FLOAT16, *_INTEGERS}
        for variable, types in defined.items()
    }


def _in_order(types: Types) -> list[tuple[str, list[str]]]:
    return sorted((variable, sorted(allowed)) for variable, allowed in types.items())


def _constraints(types: Types, sets: dict[str, int]) -> dict[str, int]:
    """The dtypes of the tensors that every type variable stands for, not those in sequences or maps."""
    constraints = {}
    for variable, allowed in sorted(types.items()):
        tensors = (each[7:-1] for each in allowed if each.startswith("tensor("))
        names = sorted(_NAMES.get(each, each) for each in tensors)
        constraints[variable] = sets.setdefault(" ".join(names), len(sets))
    return constraints


def _newest(loads: Any) -> int:
    return max(version for version in range(1, 60) if loads(version))


def _loads_ml(version: int) -> bool:
    return _loads("ai.onnx.ml", version, 10)


def _loads(domain: str, version: int, ir_version: int) -> bool:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1]) for name in "xy"]
    node = helper.make_node("Identity", ["x"], ["y"])
    if domain:
        node = helper.make_node("Normalizer", ["x"], ["y"], domain=domain, norm="L1")
    opsets = {"": 18, domain: version}
    model = helper.make_model(
        helper.make_graph([node], "graph", value[:1], value[1:]),
        opset_imports=[helper.make_opsetid(*each) for each in opsets.items()],
        ir_version=ir_version,
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception:  # the runtime has no common base class for its errors
        return False
    return bool(session.run(None, {"x": np.ones((1, 1), np.float32)}))


def written(content: dict[str, Any]) -> str:
    """The table as text, one operator a line."""
    head = {key: value for key, value in content.items() if key not in ("operators", "dtypes")}
    lines = [json.dumps(head)[:-1] + ',\n"dtypes": [']
    lines += [",\n".join(f"  {json.dumps(each)}" for each in content["dtypes"]), '],\n"operators": {']
    domains = []
    for domain, operators in content["operators"].items():
        rows = (f"    {json.dumps(name)}: {json.dumps(rows)}" for name, rows in sorted(operators.items()))
        domains.append(f"  {json.dumps(domain)}: {{\n" + ",\n".join(rows) + "\n  }")
    return "\n".join([*lines, ",\n".join(domains), "}}"]) + "\n"


if __name__ == "__main__":
    DATA.write_text(written(table()), "utf-8")
    sys.stdout.write(f"{DATA}: {DATA.stat().st_size:,} bytes\n")
