"""TFLite files with a symbolic batch: shapes equal those of LiteRT after a resize, or a reason is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import sizeup
from formats.tflite.factory import File, schema
from sizeup.errors import LoadError

RESIZABLE = [
    "mlperf_ad01_int8",
    "mlperf_kws_int8",
    "mlperf_resnet8_fp32",
    "mlperf_vww96_int8",
    "mp_palm_detection_lite",
    "mp_hand_landmark_full",
    "swiftnet_vww_int8conv",
    "te_mcunetv2_large",
    "te_vww",
    "tflm_micro_speech",
]
# A shape with the batch in it, and a file whose operator LiteRT resizes no more than we do.
FIXED = {"tflm_mobilenetv2_224": "RESHAPE", "pmw_alexa": "RESHAPE", "tflm_keyword_scrambled": "SVDF"}


def _resized(path: Path, batch: int) -> Any:
    interpreter = Interpreter(
        str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    for each in interpreter.get_input_details():
        interpreter.resize_tensor_input(each["index"], [batch, *each["shape"][1:]])
    interpreter.allocate_tensors()
    return interpreter


@pytest.mark.parametrize("name", RESIZABLE)
@pytest.mark.parametrize("batch", [2, 5])
def test_every_shape_is_that_of_litert_after_a_resize(shared: Path, name: str, batch: int) -> None:
    path = shared / "models" / f"{name}.tflite"
    bound = sizeup.load(path, free=["batch"]).at(batch=batch)
    details = _resized(path, batch).get_tensor_details()
    resized = {each["index"]: tuple(each["shape"].tolist()) for each in details}
    computed = [i for op in bound.ops for i in op.outputs if bound.tensors[i].data is None]
    assert len(computed) > 3
    assert {i: bound.tensors[i].shape for i in computed} == {i: resized[i] for i in computed}


@pytest.mark.parametrize("name", RESIZABLE)
def test_the_recorded_batch_counts_as_the_file_does(shared: Path, name: str) -> None:
    path = shared / "models" / f"{name}.tflite"
    fresh = sizeup.count(path)
    counts = sizeup.count(path, free=["batch"]).at(batch=np.array([1, 7]))
    assert counts.macs.tolist() == [fresh.total_macs, 7 * fresh.total_macs]
    assert int(counts.params[1]) == fresh.total_params
    assert int(counts.read_bytes()[0]) == int(fresh.bytes_at().read.sum())


@pytest.mark.parametrize("name", FIXED)
def test_an_operator_with_the_batch_written_into_it_is_named(shared: Path, name: str) -> None:
    path = shared / "models" / f"{name}.tflite"
    with pytest.raises((RuntimeError, ValueError)):
        _resized(path, 3)
    free = sizeup.load(path, free=True)
    assert sizeup.count(free).at(batch=1).macs == sizeup.count(path).total_macs
    with pytest.raises(
        LoadError, match=f"batch 3 differs from the recorded batch \\(1\\), and {FIXED[name]}"
    ):
        free.at(batch=3)


def test_only_the_batch_can_be_free(shared: Path) -> None:
    path = shared / "models" / "mlperf_ad01_int8.tflite"
    with pytest.raises(LoadError, match="only the batch"):
        sizeup.load(path, free=["height"])


def test_inputs_without_one_batch_are_refused() -> None:
    file = File()
    main = file.main
    first, second = main.tensor("a", (2, 3)), main.tensor("b", (1, 3))
    output = main.tensor("c", (2, 3))
    main.op("ADD", [first, second], [output], schema.AddOptionsT())
    main.table.inputs, main.table.outputs = [first, second], [output]
    with pytest.raises(LoadError, match="no common first dimension \\(batch\\): 1, 2"):
        sizeup.load(file.pack(), free=["batch"])
