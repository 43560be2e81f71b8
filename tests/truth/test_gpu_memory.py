"""Published memory of PyTorch on GPUs: torch.cuda.max_memory_allocated and max_memory_reserved of inferences.

optimum-benchmark measured resnet50 and BERT on an A10G and with ROCm on an AMD GPU:
https://huggingface.co/datasets/optimum-benchmark/cuda (commits fc707d0, 7b7c3ab) and
https://huggingface.co/datasets/optimum-benchmark/rocm (commits 1b668ce, 29e07a1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import sizeup
from sizeup.graph import Graph
from sizeup.memory import DeviceMemory, device_memory, usage

pytestmark = pytest.mark.extras

CUBLAS = 8_519_680  # :4096:2:16:8, in KiB
MIB = 1 << 20


def replayed(graph: Graph, blas_workspace_bytes: int = CUBLAS, inferences: int = 1) -> DeviceMemory:
    buffers = usage(graph, use_recorded_run=True, on_gpu=True).buffers
    return device_memory(graph, buffers, blas_workspace_bytes=blas_workspace_bytes, inferences=inferences)


def test_weights_of_resnet18_take_what_ptrblck_measured() -> None:
    """44.6904296875 MiB after model.to("cuda"), https://github.com/pytorch/pytorch/issues/107667."""
    graph = sizeup.load("torchvision:resnet18")
    assert replayed(graph).weight_bytes == 44.6904296875 * MIB


def test_loading_resnet50_reserves_what_was_measured() -> None:
    graph = sizeup.load("timm:resnet50", inputs=((1, 3, 224, 224),))
    assert replayed(graph).weight_bytes == 102_475_264
    assert replayed(replace(_without_ops(graph), inputs=())).reserved_bytes == 123_731_968


def _without_ops(graph: Graph) -> Graph:
    """Its weights and inputs alone."""
    return replace(graph, ops=(), outputs=(), recorded_run=None)


def test_an_inference_of_resnet50_reserves_what_was_measured() -> None:
    memory = replayed(sizeup.load("timm:resnet50", inputs=((1, 3, 224, 224),)))
    assert memory.reserved_bytes == 148_897_792  # on both GPUs
    # ROCm measured 113,516,032 B: 2,048 B more, two vectors of 256 channels in its batch normalization.
    assert memory.allocated_bytes == 113_516_032 - 2_048
    # CUDA measured 114,685,952 B: 1 % more, which is the workspace of a convolution in cuDNN.
    assert memory.allocated_bytes == pytest.approx(114_685_952, rel=0.011)


def test_an_inference_of_bert_allocates_what_was_measured() -> None:
    """The excerpts do not state the input; only two tokens lead to an output of the measured size."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from sizeup.formats.torch.zoo import import_torchvision

    import_torchvision()
    from transformers import BertConfig, BertForMaskedLM

    with torch.device("meta"):
        module: Any = BertForMaskedLM(BertConfig())  # type: ignore[no-untyped-call]  # transformers has no types
    module.eval()
    tokens = torch.zeros(1, 2, dtype=torch.long)
    names = ("input_ids", "attention_mask", "token_type_ids")
    graph = sizeup.load(module, kwargs=dict.fromkeys(names, tokens))
    # ROCm, which had no BLAS workspace then: 512 B more, a mask that later versions of transformers drop.
    assert replayed(graph, blas_workspace_bytes=0).allocated_bytes == 439_456_768 - 512
    # CUDA: in addition 1 MiB, the workspace that cuBLASLt had until both became one.
    assert replayed(graph).allocated_bytes == 449_025_024 - 512 - MIB


def test_max_pooling_reserves_indices_as_reported() -> None:
    """296 MiB before and 5,014 MiB after forward, https://github.com/pytorch/pytorch/issues/69526."""
    torch = pytest.importorskip("torch")
    pool = torch.nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 28, (3, 3)), pool, pool).eval()

    class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = module

        def forward(self, x: object) -> object:
            for layer in self.layers:
                x = layer(x)
            return x

    graph = sizeup.load(Net(), inputs=((512, 3, 224, 224),))
    # Segments of 2 (weights) + 294 (input); 2,696 (convolution), 674 (pool) and 1,348 MiB (its indices).
    assert replayed(_without_ops(graph)).reserved_bytes == 296 * MIB
    assert replayed(graph).reserved_bytes == 5_014 * MIB
