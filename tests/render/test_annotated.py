"""Copies of ONNX files with figures: judged by the protobuf library, ONNX's checker and ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sizeup
from explorer import explored, onnx_files
from sizeup.errors import SizeupError, WriteError

if TYPE_CHECKING:
    import onnx

pytestmark = pytest.mark.extras


def properties(entries: Any) -> dict[str, str]:
    """Our properties among those of a model or of a node, each of which may be there once."""
    ours = [
        (each.key.removeprefix("sizeup."), each.value) for each in entries if each.key.startswith("sizeup.")
    ]
    assert len(ours) == len(dict(ours))
    return dict(ours)


def stripped(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without our properties."""
    for holder in (model, *model.graph.node):
        kept = [each for each in holder.metadata_props if not each.key.startswith("sizeup.")]
        del holder.metadata_props[:]
        holder.metadata_props.extend(kept)
    return model


def outputs(path: Path) -> list[Any]:
    """What ONNX Runtime computes of random inputs."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    chance = np.random.default_rng(0)
    feeds = {
        each.name: chance.normal(size=each.shape).astype(np.float32)
        if each.type == "tensor(float)"
        else np.ones(each.shape, bool)
        for each in session.get_inputs()
    }
    return list(session.run(None, feeds))


def test_the_copy_computes_the_same_and_differs_in_our_properties_alone(tmp_path: Path) -> None:
    import onnx

    for source in onnx_files(tmp_path):
        before = source.read_bytes()
        out = source.with_suffix(".sized.onnx")
        report = sizeup.analyze(source, target="rpi4/ort")
        report.save(out)
        assert source.read_bytes() == before
        old, new = onnx.load(source), onnx.load(out)
        if old.graph.name:
            onnx.checker.check_model(out, full_check=True)
        assert new != old
        assert stripped(new) == old
        if source.stem == "same":
            continue  # ONNX Runtime refuses nodes that share a name
        for one, other in zip(outputs(source), outputs(out), strict=True):
            assert one.tobytes() == other.tobytes()


def test_nodes_and_model_carry_what_the_report_says(tmp_path: Path) -> None:
    import onnx

    source = onnx_files(tmp_path)[0]
    report = sizeup.analyze(source, target="rpi4/ort")
    report.save(tmp_path / "out.onnx")
    model = onnx.load(tmp_path / "out.onnx")
    rows = {report.graph.tensors[op.outputs[0]].name: report.ops[i] for i, op in enumerate(report.graph.ops)}
    properties_by_node = {each.output[0]: properties(each.metadata_props) for each in model.graph.node}
    assert rows.keys() == {name for name, node_properties in properties_by_node.items() if node_properties}
    for name, row in rows.items():
        node_properties = properties_by_node[name]
        for key in ("macs", "elementwise_ops", "params", "read_bytes", "written_bytes", "live_bytes"):
            assert int(node_properties[key]) == getattr(row, key)
        assert float(node_properties["ms"]) == pytest.approx(row.ms, rel=1e-5)
        assert node_properties.get("bound_by") == row.bound_by
    # By hand: 8 filters of 3x3x3 at 6x6 places, and 288 x 5.
    whole = properties(model.metadata_props)
    assert int(whole["macs"]) == 8 * 27 * 36 + 288 * 5
    assert int(whole["peak_bytes"]) == report.memory.usage.peak_bytes
    assert whole["target"] == "rpi4/ort"
    assert report.latency is not None
    assert float(whole["ms"]) == pytest.approx(report.latency.ms, rel=1e-5)


def test_what_is_not_known_has_a_reason_and_no_figure(tmp_path: Path) -> None:
    import onnx

    from formats.onnx.making import model, node, value

    odd = model(
        [node("Relu", "x", "r"), node("com.example::Odd", "r", "y")],
        [value("x", (1, 25))],
        [value("y", (1, 25))],
    )
    onnx.save(odd, tmp_path / "in.onnx")
    sizeup.analyze(tmp_path / "in.onnx").save(tmp_path / "out.onnx")
    node_properties = onnx.load(tmp_path / "out.onnx")
    relu, unknown = (properties(each.metadata_props) for each in node_properties.graph.node)
    assert relu["macs"] == "0"
    assert "unknown" not in relu
    assert "macs" not in unknown
    assert "no cost rule for com.example::Odd" in unknown["unknown"]
    assert "macs" not in properties(node_properties.metadata_props)


def test_a_second_count_replaces_the_first(tmp_path: Path) -> None:
    import onnx

    source = onnx_files(tmp_path)[0]
    sizeup.analyze(source, target="rpi4/ort").save(tmp_path / "first.onnx")
    again = sizeup.analyze(tmp_path / "first.onnx", precision="fp16")
    again.save(tmp_path / "second.onnx")
    second = onnx.load(tmp_path / "second.onnx")
    properties_by_node = properties(second.metadata_props)
    assert properties_by_node["precision"] == "fp16"
    assert "ms" not in properties_by_node
    assert int(properties_by_node["read_bytes"]) == again.totals.read_bytes
    assert not any("ms" in properties(each.metadata_props) for each in second.graph.node)
    assert stripped(second) == onnx.load(source)


@pytest.mark.parametrize(("version", "opset"), [(3, 8), (7, 13), (9, 19), (10, 21)])
def test_files_of_older_versions_stay_what_they_are(version: int, opset: int, tmp_path: Path) -> None:
    import onnx

    from formats.onnx.making import model, node, value

    old = model([node("Relu", "x", "y")], [value("x", (1, 25))], [value("y", (1, 25))], opset=opset)
    old.ir_version = version
    onnx.save(old, tmp_path / "in.onnx")
    sizeup.analyze(tmp_path / "in.onnx").save(tmp_path / "out.onnx")
    new = onnx.load(tmp_path / "out.onnx")
    assert new.ir_version == version
    assert properties(new.graph.node[0].metadata_props)["elementwise_ops"] == "25"
    onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)
    for one, other in zip(outputs(tmp_path / "in.onnx"), outputs(tmp_path / "out.onnx"), strict=True):
        assert one.tobytes() == other.tobytes()


def test_weights_in_another_file_serve_both_in_a_folder_and_are_copied_once_to_another(
    tmp_path: Path,
) -> None:
    import onnx

    from formats.onnx.making import branches

    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    away.mkdir()
    source = home / "in.onnx"
    onnx.save(branches(), source, save_as_external_data=True, location="in.weights", size_threshold=0)
    report = sizeup.analyze(source)
    report.save(home / "out.onnx")
    assert sorted(each.name for each in home.iterdir()) == ["in.onnx", "in.weights", "out.onnx"]
    report.save(away / "out.onnx")
    assert sorted(each.name for each in away.iterdir()) == ["in.weights", "out.onnx"]
    assert (away / "in.weights").read_bytes() == (home / "in.weights").read_bytes()
    expected = outputs(source)
    for each in (home / "out.onnx", away / "out.onnx"):
        onnx.checker.check_model(each, full_check=True)
        assert stripped(onnx.load(each, load_external_data=False)) == onnx.load(
            source, load_external_data=False
        )
        for one, other in zip(expected, outputs(each), strict=True):
            assert one.tobytes() == other.tobytes()


def test_a_copy_is_refused_where_it_would_destroy_or_mean_nothing(shared: Path, tmp_path: Path) -> None:
    source = onnx_files(tmp_path)[2]
    before = source.read_bytes()
    report = sizeup.analyze(source)
    with pytest.raises(WriteError, match="is the input model, which is not overwritten"):
        report.save(source)
    assert source.read_bytes() == before
    with pytest.raises(SizeupError, match=": no such folder"):
        report.save(tmp_path / "nowhere" / "out.onnx")
    with pytest.raises(SizeupError, match=r"metadata needs an \.onnx model"):
        sizeup.analyze(shared / "models" / "mlperf_kws_int8.tflite").save(tmp_path / "out.onnx")
    source.write_bytes(before + b"\0")
    with pytest.raises(SizeupError, match="the file has changed since it was analyzed"):
        report.save(tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def test_model_explorer_shows_the_figures_of_the_copy(tmp_path: Path) -> None:
    source = onnx_files(tmp_path)[1]
    report = sizeup.analyze(source)
    report.save(tmp_path / "out.onnx")
    ((_, nodes),) = explored(tmp_path / "out.onnx")[str(tmp_path / "out.onnx")].items()
    shown = [each["attributes"].get("[metadata] sizeup.macs") for each in nodes.values()]
    assert sum(int(each) for each in shown if each) == report.totals.macs > 0
