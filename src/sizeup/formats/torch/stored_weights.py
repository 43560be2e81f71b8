"""State how a checkpoint stores the parameters of a recorded graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from sizeup.formats.quantization_config import QuantizationConfig
from sizeup.formats.torch.construction import Clock
from sizeup.formats.weight_schemes import StoredWeight
from sizeup.graph import ABSENT, Constant, Graph, Op, Tensor


def stored_weights(
    module: torch.nn.Module, quantization: QuantizationConfig, clock: Clock
) -> tuple[dict[str, StoredWeight], dict[str, int]]:
    """Return how each quantized parameter is stored, by name, and the parameters per scheme.

    Embeddings, norms, routers and convolutions are not linear layers, and keep the dtype of the model.
    """
    stored: dict[str, StoredWeight] = {}
    counts: dict[str, int] = {}
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    for submodule in module.modules():
        clock.check()
        is_linear = isinstance(submodule, torch.nn.Linear)
        transposed = bool(getattr(submodule, "is_transposed", False))
        for parameter in submodule._parameters.values():
            if parameter is None or not (is_linear or parameter.dim() == 3):
                continue
            name = names[id(parameter)]
            entry = quantization.stored(name, tuple(parameter.shape), transposed=transposed and not is_linear)
            if entry is not None:
                stored[name], scheme = entry
                counts[scheme.label] = counts.get(scheme.label, 0) + parameter.numel()
    return stored, counts


DENSE_EXPERTS = (
    "transformers computes every token with all experts of this model, and so does this count;"
    " serving runtimes compute the routed ones only"
)


def computes_all_experts(graph: Graph) -> bool:
    """Return whether a batched matrix product reads the stacked matrices of all experts."""
    stacked = {
        identity
        for identity, tensor in enumerate(graph.tensors)
        if tensor.is_parameter and len(tensor.shape or ()) == 3 and ".experts." in tensor.name
    }
    return any(op.kind == "matmul" and not stacked.isdisjoint(op.inputs) for op in graph.ops)


def with_stored_weights(graph: Graph, stored: Mapping[str, StoredWeight]) -> Graph:
    """Return the graph with the stored dtypes and bytes of its parameters, and of aliases of these."""
    return _restored(graph, stored, {}) if stored else graph


def _restored(graph: Graph, stored: Mapping[str, StoredWeight], constants: dict[int, Constant]) -> Graph:
    tensors = list(graph.tensors)
    for identity, tensor in enumerate(graph.tensors):
        weight = stored.get(tensor.name) if tensor.is_parameter else None
        if weight is not None and tensor.data is not None:
            dense = ((tensor.elements or 0) * weight.dtype.bits + 7) // 8
            data = constants.setdefault(
                id(tensor.data),
                replace(
                    tensor.data,
                    stored_bytes=weight.stored_bytes,
                    scale_bytes=max(weight.stored_bytes - dense, 0),
                ),
            )
            tensors[identity] = replace(tensor, dtype=weight.dtype, data=data)
    ops = []
    for op in graph.ops:
        _restore_alias(graph, tensors, op)
        bodies = tuple(replace(body, graph=_restored(body.graph, stored, constants)) for body in op.bodies)
        ops.append(replace(op, bodies=bodies) if bodies else op)
    return replace(graph, tensors=tuple(tensors), ops=tuple(ops))


def _restore_alias(graph: Graph, tensors: list[Tensor], op: Op) -> None:
    """Give the outputs of an op on a stored weight alone, such as a transpose, that weight's dtype."""
    source = op.inputs[0] if op.inputs else ABSENT
    if source == ABSENT or tensors[source] is graph.tensors[source]:
        return
    weight = tensors[source]
    for identity in op.outputs:
        alias = graph.tensors[identity]
        if alias.data is None or alias.dtype is not graph.tensors[source].dtype or weight.data is None:
            continue
        scale_bytes = weight.data.scale_bytes * (alias.elements or 0) // max(weight.elements or 0, 1)
        data = replace(alias.data, scale_bytes=scale_bytes)
        tensors[identity] = replace(alias, dtype=weight.dtype, data=data)
