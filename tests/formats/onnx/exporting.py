"""Networks written as ONNX by torch's two exporters."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import Any

import onnx
import torch
from torch import Tensor, nn


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silences the warnings of the exporters about each other, about internals and about tracing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def by_tracing(module: nn.Module, inputs: tuple[Tensor, ...], **options: Any) -> onnx.ModelProto:
    """The older exporter, which most files in the world come from."""
    buffer = io.BytesIO()
    with quiet():
        torch.onnx.export(module.eval(), inputs, buffer, dynamo=False, **options)  # type: ignore[arg-type]
    return onnx.load_model_from_string(buffer.getvalue())


def by_export(module: nn.Module, inputs: tuple[Tensor, ...], **options: Any) -> onnx.ModelProto:
    """The newer exporter, by way of torch.export."""
    with quiet():
        program = torch.onnx.export(module.eval(), inputs, dynamo=True, verbose=False, **options)
    assert program is not None
    proto: onnx.ModelProto = program.model_proto
    return proto


def with_distinct_weights(module: nn.Module) -> nn.Module:
    """Exporters merge equal weights, and fresh biases and norms are all equal: give each its own."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.02)
    return module
