"""Sixteen networks per runtime that are not in the calibration: CNNs, transformers and LSTMs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnxruntime.quantization import CalibrationDataReader, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import Tensor, nn

from calibration import architectures
from formats.onnx.exporting import by_tracing, quiet
from sizeup.calibration.write_tflite import tflite_file
from sizeup.formats.torch.zoo import import_torchvision

FILES = (
    "mp_hand_landmark_full", "mp_selfie_segmentation", "mlperf_resnet8_fp32", "mlperf_vww96_fp32",
    "tflm_mobilenetv2_224", "mlperf_vww96_int8", "te_mcunetv2_large", "mlperf_resnet_large_int8",
    "mp_palm_detection_lite", "te_vww", "mlperf_kws_int8", "mlperf_ad01_fp32",
)  # fmt: skip
QUANTIZED = ("mobilenet_v2", "resnet18", "squeezenet1_1", "vit_tiny_patch16_224", "regnet_x_400mf")
IMAGES = (
    "mobilenet_v2",
    "resnet18",
    "squeezenet1_1",
    "efficientnet_b0",
    "shufflenet_v2_x1_0",
    "mobilenet_v3_small",
    "regnet_x_400mf",
    "googlenet",
)
"""Of torchvision, for ONNX Runtime and PyTorch."""
_BERT = {
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 512,
    "vocab_size": 2000,
}


class Recurrent(nn.Module):
    """Two LSTM layers over 1 s of speech."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(40, 128, 2, batch_first=True)
        self.head = nn.Linear(128, 12)

    def forward(self, x: Tensor) -> Tensor:
        steps, _ = self.cells(x)
        result: Tensor = self.head(steps[:, -1])
        return result


class Bert(nn.Module):
    """A small BERT with an explicit mask, as exporters require."""

    def __init__(self) -> None:
        from transformers import BertConfig, BertModel

        super().__init__()
        sizes: dict[str, Any] = _BERT
        config = BertConfig(**sizes)
        make: Any = BertModel
        self.inner = make(config, add_pooling_layer=False)

    def forward(self, ids: Tensor) -> Tensor:
        result: Tensor = self.inner(input_ids=ids, attention_mask=torch.ones(1, 1, 64, 64)).last_hidden_state
        return result


_OPTIONS: dict[str, dict[str, Any]] = {"googlenet": {"init_weights": False, "aux_logits": False}}


def _modules() -> dict[str, tuple[nn.Module, Tensor]]:
    torchvision = import_torchvision()
    import timm

    torch.manual_seed(0)
    picture = torch.randn(1, 3, 224, 224)
    modules: dict[str, tuple[nn.Module, Tensor]] = {
        name: (torchvision.models.get_model(name, weights=None, **_OPTIONS.get(name, {})).eval(), picture)
        for name in IMAGES
    }
    modules["vit_tiny_patch16_224"] = (timm.create_model("vit_tiny_patch16_224"), picture)
    modules["bert_tiny"] = (Bert(), torch.randint(0, 100, (1, 64)))
    modules["lstm"] = (Recurrent(), torch.randn(1, 50, 40))
    return modules


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, name: str, sample: Tensor) -> None:
        self.left = [{name: sample.numpy()}]

    def get_next(self) -> dict[str, np.ndarray[Any, Any]] | None:
        return self.left.pop() if self.left else None


def onnx_networks(folder: Path) -> dict[str, bytes]:
    """Networks exported by tracing; int8 ones quantized per channel by ONNX Runtime."""
    networks = {}
    for name, (module, sample) in _modules().items():
        model = by_tracing(module, (sample,), opset_version=17)
        networks[name] = model.SerializeToString()
        if name in QUANTIZED:
            networks[f"{name}_int8"] = _quantized(model, sample, folder)
    return networks


def _quantized(model: onnx.ModelProto, sample: Tensor, folder: Path) -> bytes:
    plain, inferred, quantized = (folder / f"{stem}.onnx" for stem in ("plain", "inferred", "int8"))
    onnx.save(model, plain)
    with quiet():
        quant_pre_process(str(plain), str(inferred))
        reader = _Samples(model.graph.input[0].name, sample)
        quantize_static(str(inferred), str(quantized), reader, per_channel=True)
    return quantized.read_bytes()


def tflite_networks(shared: Path) -> dict[str, bytes]:
    """Published files, and published architectures written from sketches."""
    networks = {name: (shared / f"models/{name}.tflite").read_bytes() for name in FILES}
    for sketch in (
        architectures.mobilenet_v2(),
        architectures.resnet18(),
        architectures.vit_tiny(),
        architectures.lstm(),
    ):
        networks[sketch.name] = tflite_file(sketch)
    return networks


def torch_networks(folder: Path) -> dict[str, tuple[Any, Any]]:
    """Names of library models, or a module and its inputs."""
    config = folder / "bert.json"
    config.write_text(json.dumps({"model_type": "bert", "architectures": ["BertModel"], **_BERT}), "utf-8")
    images = (*IMAGES, "mnasnet1_0", "densenet121", "resnet34")
    networks: dict[str, tuple[Any, Any]] = {name: (f"torchvision:{name}", None) for name in images}
    for name in ("vit_tiny_patch16_224", "convnext_atto", "mixer_s32_224"):
        networks[name] = (f"timm:{name}", None)
    networks["bert_tiny"] = (f"hf:{config}", None)
    networks["lstm"] = (Recurrent().eval(), ((1, 50, 40),))
    return networks
