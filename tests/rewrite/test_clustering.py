"""Clustered and packed weights in real files of every type, counted through LiteRT's own object API."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import sizeup
from sizeup.rewrite.verify import is_equal
from sizeup.runtimes import random_samples, run

pytestmark = pytest.mark.extras

TYPES = {0: np.float32, 1: np.float16, 2: np.int32, 3: np.uint8, 4: np.int64, 9: np.int8}
PRODUCTS = {"CONV_2D": 1, "DEPTHWISE_CONV_2D": 1, "FULLY_CONNECTED": 1}


def weights_and_biases(content: bytes) -> Iterator[tuple[Any, Any]]:
    """What each product of the main graph reads as weight and as bias, looked up through DEQUANTIZE."""
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    names = {code: name for name, code in vars(schema.BuiltinOperator).items() if name[0] != "_"}
    codes = [names[max(each.builtinCode, each.deprecatedBuiltinCode)] for each in model.operatorCodes]
    source = {}
    for operator in graph.operators:
        if codes[operator.opcodeIndex] in ("DEQUANTIZE", "DENSIFY"):
            source[operator.outputs[0]] = operator.inputs[0]

    def numbers(identity: int) -> Any:
        while identity in source:
            identity = source[identity]
        tensor = graph.tensors[identity]
        raw = model.buffers[tensor.buffer].data
        weights = None if raw is None else np.asarray(raw, np.uint8).view(TYPES[tensor.type])
        # A sparse weight has zeros between what is stored.
        return (
            weights
            if tensor.sparsity is None or weights is None
            else np.append(weights, np.zeros(1, weights.dtype))
        )

    for operator in graph.operators:
        if codes[operator.opcodeIndex] in PRODUCTS:
            inputs = list(operator.inputs)
            yield numbers(inputs[1]), numbers(inputs[2]) if len(inputs) > 2 and inputs[2] >= 0 else None


@pytest.mark.parametrize(
    ("name", "kind", "runtime"),
    [
        ("swiftnet_vww_uint8", np.uint8, "LiteRT"),
        ("mlperf_kws_int8", np.int8, "TFLite Micro"),  # per channel
        ("mlperf_ad01_int8", np.int8, "TFLite Micro"),  # per tensor
        ("mp_palm_detection_lite", np.float16, "LiteRT"),
        ("mp_face_detection_full_range_sparse", np.float16, "LiteRT"),
        ("mlperf_resnet8_fp32", np.float32, "TFLite Micro"),
    ],
)
def test_weights_of_every_type_are_clustered(
    shared: Path, tmp_path: Path, name: str, kind: Any, runtime: str
) -> None:
    values = 16
    source, out = shared / "models" / f"{name}.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(source, out, cluster=values, reorder=False, plan=False)
    old, new = source.read_bytes(), out.read_bytes()
    weights = 0
    pairs = zip(weights_and_biases(old), weights_and_biases(new), strict=True)
    for (old_weight, old_bias), (new_weight, new_bias) in pairs:
        assert old_weight.dtype == new_weight.dtype == kind
        assert len(np.unique(new_weight)) <= values
        assert (old_bias is None and new_bias is None) or np.array_equal(old_bias, new_bias)
        weights += not np.array_equal(old_weight, new_weight)
    assert weights > 3
    assert result.clustered_weights >= weights
    assert len(new) == len(old)
    assert result.after.gzip_bytes == len(gzip.compress(new, 6, mtime=0))
    assert result.after.gzip_bytes is not None
    assert result.before.gzip_bytes is not None
    assert result.after.gzip_bytes < 0.95 * result.before.gzip_bytes
    assert result.verification is not None
    assert result.verification.runtime == runtime


def test_the_deviation_is_what_the_outputs_differ_by(shared: Path, tmp_path: Path) -> None:
    source, out = shared / "models/mlperf_resnet8_int8.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(source, out, cluster=16, reorder=False, plan=False)
    assert result.verification is not None
    assert result.verification.deviation is not None
    samples = random_samples(sizeup.load(source), result.verification.samples)
    before, after = (np.array(run("tflm", path, samples).outputs, np.float64) for path in (source, out))
    assert result.verification.deviation.largest == np.abs(after - before).max()
    assert result.verification.deviation.mean == pytest.approx(np.abs(after - before).mean())
    finer = sizeup.optimize(source, out, cluster=128, reorder=False, plan=False)
    assert finer.verification is not None
    assert finer.verification.deviation is not None
    assert finer.verification.deviation.mean < result.verification.deviation.mean


def test_256_values_leave_8_bit_weights_as_they_are(shared: Path, tmp_path: Path) -> None:
    source, out = shared / "models/mlperf_kws_int8.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(source, out, cluster=256, reorder=False, plan=False)
    assert not result.changed
    assert result.clustered_weights == 10
    assert out.read_bytes() == source.read_bytes()


@pytest.mark.parametrize(
    ("name", "before", "most"),
    [
        ("mlperf_resnet8_int8", 98_496, 71_216),
        ("mlperf_vww96_int8", 333_288, 284_896),
        ("mlperf_kws_int8", 53_936, 51_000),
        ("mlperf_resnet8_fp32", 318_144, 51_000),
    ],
)
def test_packed_weights_take_less_room_and_compute_the_same(
    shared: Path, tmp_path: Path, name: str, before: int, most: int
) -> None:
    source = shared / "models" / f"{name}.tflite"
    clustered, packed = tmp_path / "clustered.tflite", tmp_path / "packed.tflite"
    sizeup.optimize(source, clustered, cluster=16, reorder=False, plan=False)
    result = sizeup.optimize(source, packed, cluster=16, pack=True)
    assert result.packed_weights > 3
    assert source.stat().st_size == before
    assert packed.stat().st_size <= most
    samples = random_samples(sizeup.load(source), 10, seed=5)
    large, small = (run("tflm", path, samples) for path in (clustered, packed))
    assert large.distinct_outputs > 2
    assert is_equal(large, small)
    model = schema.Model.GetRootAs(packed.read_bytes())
    assert b"TFLM_DECODE" in {model.OperatorCodes(i).CustomCode() for i in range(model.OperatorCodesLength())}
    old = schema.Model.GetRootAs(source.read_bytes())
    assert model.Description() == old.Description()
    names = [{each.Metadata(i).Name() for i in range(each.MetadataLength())} for each in (old, model)]
    assert names[0] <= names[1]


def test_weights_with_many_values_are_not_packed(shared: Path, tmp_path: Path) -> None:
    source, out = shared / "models/mlperf_kws_int8.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(source, out, pack=True)
    assert not result.changed
    assert any("--cluster 16" in note for note in result.notes)


def test_a_model_that_only_litert_runs_is_not_packed(shared: Path, tmp_path: Path) -> None:
    source, out = shared / "models/swiftnet_vww_uint8.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(source, out, pack=True, reorder=False, plan=False)
    assert not result.changed
    assert any("no code-books were written" in note for note in result.notes)
