"""Verdicts for microcontrollers of models with operators that a runtime may not run: never a yes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sizeup

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
TARGET = "stm32f746/tflm-cmsis-nn"
MICROCONTROLLERS = {each.name for each in sizeup.devices() if each.device_class == "microcontroller"}


class Sampled(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """A convolution and a grid sample, which no kernel of TFLite Micro computes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)

    def forward(self, x: Any, grid: Any) -> Any:
        return torch.nn.functional.grid_sample(self.conv(x), grid, align_corners=False)


INPUTS = {"x": (1, 1, 8, 8), "grid": (1, 8, 8, 2)}


def onnx_of(tmp_path: Path, op: str, *shapes: tuple[int, ...], **attributes: Any) -> Path:
    names = [f"x{index}" for index in range(len(shapes))]
    kinds = onnx.TensorProto.FLOAT
    inputs = [
        onnx.helper.make_tensor_value_info(name, kinds, shape)
        for name, shape in zip(names, shapes, strict=True)
    ]
    output = onnx.helper.make_tensor_value_info("y", kinds, None)
    node = onnx.helper.make_node(op, names, ["y"], **attributes)
    graph = onnx.helper.make_graph([node], op.lower(), inputs, [output])
    opset = onnx.helper.make_opsetid("", 16)
    path = tmp_path / f"{op}.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return path


def ram_reason(check: Any) -> str:
    (limit,) = (limit for limit in check.limits if limit.name == "ram")
    return "; ".join(limit.unknown)


def test_a_module_with_an_operator_without_a_kernel_is_undetermined() -> None:
    check = sizeup.check(Sampled(), TARGET, inputs=INPUTS)
    assert check.fits is None
    assert check.remedies == ()  # none adds a kernel
    assert ram_reason(check) == (
        "TFLite Micro has no kernel for grid_sample: undetermined until the model is converted to .tflite"
    )
    assert check.caveats == (
        "tflm-cmsis-nn does not read PyTorch modules: the verdict is for the same operators",
    )


def test_an_exported_program_has_the_verdict_and_the_caveat_of_its_module(tmp_path: Path) -> None:
    tensors = tuple(torch.zeros(shape) for shape in INPUTS.values())
    path = tmp_path / "sampled.pt2"
    torch.export.save(torch.export.export(Sampled(), tensors), path)
    check = sizeup.check(path, TARGET, remedies=False)
    assert check.fits is None
    assert "grid_sample" in ram_reason(check)
    assert "does not read .pt2 files" in check.caveats[0]


@pytest.mark.parametrize(
    ("op", "shapes", "name"),
    [
        ("GridSample", ((1, 1, 8, 8), (1, 8, 8, 2)), "grid_sample"),
        ("Conv", ((1, 1, 8, 8, 8), (2, 1, 3, 3, 3)), "3-D conv"),
        ("Tan", ((1, 4),), "tan"),
    ],
)
def test_onnx_operators_without_a_kernel_are_undetermined(
    tmp_path: Path, op: str, shapes: tuple[tuple[int, ...], ...], name: str
) -> None:
    path = onnx_of(tmp_path, op, *shapes)
    check = sizeup.check(path, TARGET, remedies=False)
    assert check.fits is None
    assert f"no kernel for {name}:" in ram_reason(check)
    # A model that exceeds the memory without the tensors of the missing kernel does not fit with them either.
    assert sizeup.check(path, TARGET, ram=8, remedies=False).fits is False


def test_other_commands_give_the_verdict_of_check(tmp_path: Path) -> None:
    path = onnx_of(tmp_path, "GridSample", (1, 1, 8, 8), (1, 8, 8, 2))
    fit = sizeup.analyze(path, target=TARGET).memory_fit
    assert fit is not None
    assert fit.fits is None
    assert sizeup.compare(path, path, target=TARGET).to_dict()["a"]["fits"] is None
    spec = {"models": [str(path)], "targets": [TARGET]}
    swept = sizeup.sweep(spec, tmp_path / "store", in_process=True)
    answer = sizeup.query(swept.store, "select fits, fits_reason from points")
    (row,) = answer.to_pandas().to_dict("records")
    assert row["fits"] is None
    assert "no kernel for grid_sample" in row["fits_reason"]
    # A board fits only with another runtime.
    ranking = sizeup.rank_targets(path)
    assert not any(fit.board.device in MICROCONTROLLERS for fit in ranking.fits)
    without = [fit for fit in ranking.undetermined if fit.memory_fit.missing_operators]
    assert {fit.reasons[0].about for fit in without} == {"operators"}
    assert any(fit.target.runtime.micro in ("reference", "cmsis-nn") for fit in ranking.undetermined)


def test_composed_operators_have_a_caveat_and_a_bound(tmp_path: Path) -> None:
    check = sizeup.check(onnx_of(tmp_path, "Erf", (1, 8)), TARGET, remedies=False)
    assert check.fits is True
    assert "no kernel for erf: a converter uses several operators" in check.caveats[1]


@pytest.mark.slow
def test_an_encoder_layer_as_one_operator_needs_no_less_than_its_parts(tmp_path: Path) -> None:
    # The kernel of eager PyTorch is one operator; its exported program has the tensors between its parts.
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    fused = sizeup.check(layer, TARGET, inputs=(1, 64, 32), remedies=False)
    path = tmp_path / "encoder.pt2"
    torch.export.save(torch.export.export(layer, (torch.zeros(1, 64, 32),)), path)
    parts = sizeup.load(path)
    peak = sizeup.analyze(parts).memory.usage.peak_bytes
    (ram,) = (limit for limit in fused.limits if limit.name == "ram")
    planned = sum(part.high_bytes or 0 for part in ram.parts if part.name in ("arena", "conversion"))
    assert "attention_layer" in fused.caveats[1]
    assert planned >= peak
    # Two tensors of scores: 4 heads x 64 x 64 numbers of 4 bytes.
    assert planned >= 2 * 4 * 64 * 64 * 4


@pytest.mark.parametrize(
    ("target", "op", "reason"),
    [
        ("stm32l4r5/microtvm", "GridSample", "whether microTVM runs grid_sample is not known"),
        (
            "stm32f746/stedgeai",
            "GridSample",
            "whether ST Edge AI Core (X-CUBE-AI) runs grid_sample is not known",
        ),
        ("esp32-s3/esp-dl", "Tan", "Tan is not in the list of operators of ESP-DL"),
        ("stm32f746/tinyengine", "Tanh", "tanh is not in the list of operators of TinyEngine"),
        # Runtimes without a list run what TFLite Micro runs, or what converters compose of it.
        ("stm32l4r5/microtvm", "Erf", ""),
        ("stm32f746/stedgeai", "Tanh", ""),
        ("esp32-s3/esp-dl", "Tanh", ""),
        ("stm32f746/tinyengine", "Relu", ""),
    ],
)
def test_operators_that_no_list_has_are_undetermined(
    tmp_path: Path, target: str, op: str, reason: str
) -> None:
    shapes = {"GridSample": ((1, 1, 8, 8), (1, 8, 8, 2))}.get(op, ((1, 8),))
    path = onnx_of(tmp_path, op, *shapes)
    check = sizeup.check(path, target, precision="int8", flash=1 << 20, remedies=False)
    assert check.fits is (None if reason else True)
    assert ram_reason(check) == reason


def test_a_list_is_of_names_in_its_format(shared: Path) -> None:
    """A .tflite file has TinyEngine's own names, and ESP-DL's only by way of their op kinds."""
    model = shared / "models" / "mlperf_vww96_int8.tflite"
    refused = sizeup.check(model, "stm32f746/tinyengine", remedies=False)
    assert ram_reason(refused) == "SOFTMAX is not in the list of operators of TinyEngine"
    assert sizeup.check(model, "esp32-s3/esp-dl", flash=1 << 22, remedies=False).fits is True


@pytest.mark.parametrize("runtime", ["tinyengine", "esp-dl"])
def test_lists_have_all_operators_of_networks_that_were_measured(shared: Path, runtime: str) -> None:
    """TinyEngine's own networks run on it; every name in a list is one that sizeup reads."""
    from sizeup.ops import op_kind_of

    listed = sizeup.target({"esp-dl": "esp32-s3"}.get(runtime, "stm32f746") + "/" + runtime).runtime.operators
    assert listed is not None
    assert [name for name in sorted(listed.names) if op_kind_of(listed.format, name) is None] == []
    if runtime == "tinyengine":
        for path in sorted((shared / "models").glob("te_*.tflite")):
            check = sizeup.check(path, "stm32f746/tinyengine", remedies=False)
            assert ram_reason(check) == "", path.name


@pytest.mark.parametrize(
    ("target", "op", "shapes", "attributes", "name"),
    [
        ("esp32-s3/esp-dl", "Conv", ((1, 4, 8, 8), (4, 2, 3, 3)), {"group": 2}, "grouped conv"),
        ("esp32-s3/esp-dl", "Conv", ((1, 4, 8, 8), (4, 1, 3, 3)), {"group": 4}, ""),
        ("esp32-s3/esp-dl", "Conv", ((1, 4, 8, 8), (4, 4, 3, 3)), {"dilations": [2, 2]}, ""),
        ("esp32-s3/esp-dl", "Add", ((1, 1, 1, 2, 2), (1, 1, 1, 2, 2)), {}, "5-D add"),
        ("stm32f746/tinyengine", "Conv", ((1, 4, 8, 8), (4, 4, 7, 7)), {}, "7 x 7 conv"),
        ("stm32f746/tinyengine", "Conv", ((1, 4, 8, 8), (4, 1, 7, 7)), {"group": 4}, ""),
        ("stm32f746/tinyengine", "Conv", ((1, 4, 8, 8), (4, 4, 3, 3)), {"dilations": [2, 2]}, "dilated conv"),
        ("stm32f746/tinyengine", "Conv", ((1, 4, 8, 8), (4, 4, 3, 3)), {}, ""),
    ],
)
def test_uses_of_operators_that_a_list_excludes_are_undetermined(
    tmp_path: Path,
    target: str,
    op: str,
    shapes: tuple[tuple[int, ...], ...],
    attributes: dict[str, Any],
    name: str,
) -> None:
    path = onnx_of(tmp_path, op, *shapes, **attributes)
    check = sizeup.check(path, target, precision="int8", flash=1 << 20, remedies=False)
    assert check.fits is (None if name else True)
    assert ram_reason(check).partition(" is not in the list")[0] == name


def test_operators_of_tflite_micro_alone_are_not_assumed_of_others(shared: Path) -> None:
    for name in ("tflm_audio_preproc_int8", "tflm_keyword_scrambled_8bit", "pmw_alexa"):
        for target in ("stm32h747/microtvm", "stm32h747/stedgeai"):
            check = sizeup.check(shared / "models" / f"{name}.tflite", target, remedies=False)
            assert check.fits is None, (name, target)
            assert "is not known" in ram_reason(check)


def test_shapes_that_the_file_fixes_are_computed_by_the_converter(tmp_path: Path) -> None:
    """As exporters write a reshape: Shape, Gather and Cast of sizes that are fixed."""
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Shape", ["x"], ["size"]),
        helper.make_node("Cast", ["size"], ["numbers"], to=kinds.FLOAT),
        helper.make_node("Cast", ["numbers"], ["back"], to=kinds.INT64),
        helper.make_node("Reshape", ["x", "back"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, kinds.FLOAT, (2, 4)) for name in "xy")
    graph = helper.make_graph(nodes, "shapes", [x], [y])
    path = tmp_path / "shapes.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    check = sizeup.check(path, "esp32-s3/esp-dl", precision="int8", flash=1 << 20, remedies=False)
    assert (check.fits, ram_reason(check)) == (True, "")


@pytest.mark.parametrize(
    ("target", "other"),
    [("stm32h747/tflm", "fp32"), ("stm32h747/stedgeai", "fp32"), ("esp32-s3/esp-dl", "int8")],
)
def test_floats_without_kernels_have_to_be_converted(tmp_path: Path, target: str, other: str) -> None:
    """A file in fp16 needs twice the memory on a runtime that computes in fp32 alone."""
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU()).half()
    check = sizeup.check(module, target, inputs=(1, 1, 16, 16), flash=1 << 22, remedies=False)
    assert check.fits is False
    assert check.unsupported_reason is not None
    assert f"has no kernels for fp16: --precision {other} converts the model" in check.unsupported_reason
