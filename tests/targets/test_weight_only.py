"""Precisions for weights alone, against the kernels that the runtimes really have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sizeup
from sizeup.errors import RunFailed, TargetError
from sizeup.targets import runtime

SAMPLES = {
    "conv": ("conv_i8_16x16x8_co16_k3_s1_same", "dw_i8_8x8x8_m1_k3_s1_same_wtyi4"),
    "matmul": ("fc_i8_1x64_co10",),
    "conv_transpose": ("tconv_i8_6x6x8_co4_k3_s2_same_nobias",),
}


def with_int4_weights(content: bytes) -> bytes:
    """The file with the weights of its one operator at 4 bits, two to a byte."""
    from sizeup.formats.tflite.codebooks import file_bytes
    from sizeup.formats.tflite.schema import schema

    model = schema().ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    weight = graph.tensors[graph.operators[0].inputs[1]]
    if weight.type != schema().TensorType.INT4:
        numbers = np.asarray(model.buffers[weight.buffer].data, np.uint8).view(np.int8) // 16
        low, high = (numbers[start::2].view(np.uint8) & 15 for start in (0, 1))
        model.buffers[weight.buffer].data = low | high << 4
        weight.type = schema().TensorType.INT4
    return file_bytes(model)


@pytest.mark.extras
@pytest.mark.parametrize("runtime_name", ["litert", "tflm"])
def test_tflite_runtimes_take_int4_weights_of_the_listed_op_kinds_alone(
    shared: Path, runtime_name: str
) -> None:
    from sizeup.runtimes import run

    listed = runtime(runtime_name).weight_only_at("int4")
    assert listed is not None
    for kind, names in SAMPLES.items():
        for name in names:
            path = shared / "boards" / "generated" / f"{name}.tflite"
            graph = sizeup.load(path)
            assert graph.ops[0].kind == kind
            shape: Any = graph.tensors[graph.inputs[0]].shape
            samples = [[np.ones(shape, np.int8)]]
            content = with_int4_weights(path.read_bytes())
            if kind in listed.op_kinds:
                assert run(runtime_name, content, samples).outputs[0][0].dtype == np.int8
            else:
                with pytest.raises(RunFailed):
                    run(runtime_name, content, samples)


@pytest.mark.extras
def test_onnx_runtime_has_int4_weights_for_products_and_look_ups_alone() -> None:
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    narrow = {"tensor(int4)", "tensor(uint4)"}
    takers = set()
    for kernel in state.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider":
            types = {str(each) for allowed in kernel.type_constraints.values() for each in allowed}
            if types & narrow or kernel.op_name.endswith("NBits"):
                takers.add(kernel.op_name)
    assert {"MatMulNBits", "GatherBlockQuantized"} <= takers
    assert not any("Conv" in name for name in takers)
    listed = runtime("ort").weight_only_at("int4")
    assert listed is not None
    assert (listed.op_kinds, listed.computes_in) == (("matmul", "embedding", "gather"), "fp32")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('dtype = "int4", computes_in = "fp32", op_kinds = ["convolution"]', "not 'convolution'"),
        ('dtype = "int4", computes_in = "fp32", op_kinds = []', "op_kinds is a list"),
        ('dtype = "int2", computes_in = "fp32", op_kinds = ["conv"]', "int2"),
        ('dtype = "int4", computes_in = "fp32", op_kinds = ["conv"], ops = 1', "unknown key 'ops'"),
    ],
)
def test_a_wrong_entry_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    (tmp_path / "own.toml").write_text(
        '[[runtime]]\nname = "own"\ntitle = "own"\nunits = ["cpu"]\ndtypes = ["fp32", "int4"]\n'
        f'source = "derived: a test"\nweight_only = [{{ {line}, source = "derived: a test" }}]\n'
    )
    from sizeup.targets import clear_cache

    monkeypatch.setenv("SIZEUP_TARGETS", str(tmp_path))
    clear_cache()
    try:
        with pytest.raises(TargetError, match=message):
            runtime("own")
    finally:
        monkeypatch.undo()
        clear_cache()
