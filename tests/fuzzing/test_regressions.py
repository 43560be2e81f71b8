"""One test per cause that fuzzing found: the smallest input that showed it, written as code."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import sizeup
from sizeup.checks import read_budgets
from sizeup.checks.baselines import read_baselines
from sizeup.errors import BudgetError, CorruptModel, LoadError, SizeupError, TargetError
from sizeup.latency import read_table
from sizeup.runtimes import infer_once
from sizeup.sweeps.spec import read_spec
from sizeup.targets import Catalog
from sizeup.targets.write import HEAD, save

DEEP = "[" * 2000 + "1" + "]" * 2000
HUGE = "0x" + "f" * 5000  # more digits than Python converts to text

pytestmark = pytest.mark.extras


def _written(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


# Settings.


@pytest.mark.parametrize("value", [DEEP, HUGE, f"[{HUGE}]", f"-{'9' * 400}"])
def test_settings_with_deep_nesting_or_huge_numbers_are_refused(tmp_path: Path, value: str) -> None:
    fit = (
        f'[[fit]]\nname = "a/b"\nrates = {{ pooled = {{ mac = 1 }} }}\nband = {{ low = {value}, high = 1 }}\n'
    )
    with pytest.raises(TargetError):
        Catalog((_written(tmp_path, fit),)).calibrations()
    with pytest.raises(TargetError):
        Catalog((_written(tmp_path, f'[[device]]\nname = "d"\nunits = {value}\n'),)).devices()
    for text in (
        f"models = {value}",
        f'models = "a"\nbatch = {value}',
        f'models = "a"\nshapes = {{ n = {value} }}',
    ):
        with pytest.raises(SizeupError):
            read_spec(_written(tmp_path, text))
    with pytest.raises(TargetError):
        Catalog((_written(tmp_path, f"[[device]]\nname = {value}\n"),)).devices()
    for key in ("arena", "strict", "bind", "target", "layers", "name"):
        with pytest.raises(BudgetError):
            read_budgets(_written(tmp_path, f'[[budget]]\nmodels = "a"\n{key} = {value}\n'))
    with pytest.raises(SizeupError):
        read_table(_written(tmp_path, f"conv = {{ int8 = {value} }}"))


@pytest.mark.parametrize("prefix", ["0x", "0o", "0b"])
def test_a_file_with_a_number_that_cannot_be_written_is_not_added_to(tmp_path: Path, prefix: str) -> None:
    path = _written(tmp_path, f'{HEAD}\n[[fit]]\nname = "a/b"\nrates = {prefix}{"1" * 20_000}\n')
    with pytest.raises(TargetError, match="more than 1,000 digits"):
        save(path, {"name": "c/d"}, None)


@pytest.mark.parametrize("value", ["1e-300", "5e-324", "1e300"])
def test_coefficients_that_make_infinite_rates_are_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(SizeupError, match="not a number of milliseconds"):
        read_table(_written(tmp_path, f"[conv]\nint8 = {value}\n"))


@pytest.mark.parametrize("name", ["/dev/zero", "../baseline.json", "/baseline.json"])
def test_a_baseline_outside_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    text = f'[[budget]]\nmodels = "a.tflite"\nbaseline = "{name}"\ngrowth = {{ macs = "5%" }}\n'
    with pytest.raises(BudgetError, match="is outside the folder"):
        read_budgets(_written(tmp_path, text))


@pytest.mark.parametrize("pattern", [".", "./", "./."])
def test_a_budget_of_the_folder_itself_is_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(BudgetError, match="is a folder; name its files"):
        read_budgets(_written(tmp_path, f'[[budget]]\nmodels = "{pattern}"\nparams = 1\n'))


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ("pooled = { byte = 1e-9, launch = 1e-6 }", "pooled: mac is missing"),
        ("pooled = RATE, classes = { conv = { mac = 1 } }", "conv: byte is missing"),
        ("pooled = RATE, schema = inf", "schema is inf, not a whole number"),
        ("pooled = RATE, schema = 2", "reads schema 1: update sizeup, or calibrate again"),
        ("pooled = RATE, saturation = { lenght = 4 }", "unknown key 'lenght'"),
        ("pooled = RATE, cache = { near = 4 }", "unknown key 'near'"),
    ],
)
def test_rates_that_are_incomplete_or_of_another_schema_are_refused(
    tmp_path: Path, rates: str, message: str
) -> None:
    complete = rates.replace("RATE", "{ mac = 1e-9, byte = 1e-9, launch = 1e-6 }")
    fit = f'[[fit]]\nname = "a/b"\nrates = {{ {complete} }}\nband = {{ low = -1, high = 1 }}\n'
    with pytest.raises(TargetError, match=message):
        Catalog((_written(tmp_path, fit),)).calibrations()


def test_a_baseline_or_a_list_of_models_that_is_no_file_is_refused(tmp_path: Path) -> None:
    from sizeup.sweeps.expand import models_of

    with pytest.raises(BudgetError, match="not a regular file"):
        read_baselines(Path("/dev/zero"), "sizeup check")
    spec = read_spec(_written(tmp_path, 'models = "@/dev/zero"\ntargets = "rpi5"\n'))
    with pytest.raises(SizeupError, match="not a regular file"):
        next(models_of(spec))


def test_a_list_that_names_a_list_with_a_null_character_is_refused(tmp_path: Path) -> None:
    from sizeup.sweeps.expand import models_of

    listed = _written(tmp_path, "@a\0b\n", "models.txt")
    spec = read_spec(_written(tmp_path, f'models = "@{listed.name}"\ntargets = "rpi5"\n'))
    with pytest.raises(SizeupError, match="null"):
        next(models_of(spec))


@pytest.mark.parametrize("pattern", ["*", "hf:*"])
def test_a_pattern_or_a_store_whose_name_is_too_long_is_refused(tmp_path: Path, pattern: str) -> None:
    from sizeup.sweeps.expand import models_of

    spec = read_spec(_written(tmp_path, f'models = "{pattern}{"x" * 3000}"\ntargets = "rpi5"\n'))
    with pytest.raises(SizeupError):
        next(models_of(spec))
    with pytest.raises(SizeupError):
        sizeup.query(tmp_path / ("x" * 3000))


@pytest.mark.parametrize("suffix", ["", ".onnx", ".tflite", ".json", "/config.json", ":factory"])
def test_a_name_that_is_too_long_is_no_model(tmp_path: Path, suffix: str) -> None:
    """A name of a file of budgets, of a table or of a sweep: not one that the user typed."""
    from sizeup.serving.api.llm import llm

    source, name = tmp_path / "net.onnx", f"{'9' * 400}{suffix}"
    source.write_bytes(b"")
    actions: Sequence[Callable[[], object]] = (
        lambda: sizeup.analyze(name),
        lambda: llm(name, target="h100"),
        lambda: llm(name, target="h100", steps=28),
        lambda: sizeup.optimize(source, name),
    )
    for act in actions:
        with pytest.raises(SizeupError):
            act()


@pytest.mark.parametrize("time", [f"1{'0' * 400}", "-1", "Infinity"])
@pytest.mark.parametrize("run", ["model_run", "conv_kernel_time"])
def test_a_profile_with_an_impossible_time_is_refused(tmp_path: Path, run: str, time: str) -> None:
    """Also of the whole run."""
    from sizeup.runtimes.profiles import read_profile

    times = {"conv_kernel_time": "5", "model_run": "5", run: time}
    events = (f'{{"cat": "Node", "name": "{name}", "dur": {times[name]}}}' for name in times)
    with pytest.raises(SizeupError):
        read_profile(_written(tmp_path, f"[{', '.join(events)}]", "profile.json"))


def test_a_kept_result_that_is_nested_too_deeply_is_left_out(tmp_path: Path) -> None:
    from sizeup.mixed_precision.result_cache import ResultCache

    deep = "[" * 100_000
    _written(tmp_path, f'{deep}\n{{"key": "a", "kl": 1}}\n', "digest.jsonl")
    assert ResultCache(tmp_path, "digest").find("a") == {"kl": 1}


# TFLite.


def _single(name: str, inputs: Sequence[int], outputs: Sequence[int], **fields: Any) -> Any:
    """One operator on float tensors of shape (1, 4); the last is made, the others are fed."""
    from formats.tflite.factory import File

    file = File()
    tensors = [file.main.tensor(f"t{n}", (1, 4), **fields) for n in range(4)]
    file.main.op(name, [tensors[each] for each in inputs], [tensors[each] for each in outputs])
    made = [tensors[each] for each in outputs]
    file.main.ends([each for each in tensors if each not in made], made or tensors[:1])
    return file


def _arena(file: Any) -> Any:
    from sizeup.backends.tflm.file_arena import tflm_arena

    return tflm_arena(sizeup.load(file.pack()))


@pytest.mark.parametrize(
    ("name", "inputs", "outputs"),
    [
        *(("DEQUANTIZE", (), ()), ("FULLY_CONNECTED", (0,), (3,)), ("ASSIGN_VARIABLE", (0,), ())),
        *(("ASSIGN_VARIABLE", (), ()), ("SVDF", (0, 1), (3,)), ("RESHAPE", (), ()), ("SPLIT", (0,), (3,))),
    ],
)
def test_operators_that_lack_tensors_are_analyzed_or_refused(
    name: str, inputs: Sequence[int], outputs: Sequence[int]
) -> None:
    content = _single(name, inputs, outputs).pack()
    try:
        report = sizeup.analyze(content)
    except LoadError:
        return
    report.to_dict()


def test_an_arena_is_unknown_if_a_kernel_takes_no_such_shapes() -> None:
    from formats.tflite.factory import File

    file = File()
    data, made = file.main.tensor("x", (8,), "INT16"), file.main.tensor("y", (), "INT16")
    file.main.op("SignalRfft", [data], [made])
    file.main.ends([data], [made])
    assert _arena(file) is None


@pytest.mark.parametrize(
    ("name", "shapes", "recorded"),
    [
        ("DEPTH_TO_SPACE", [(1, 2, 2, 8)], (1, 3, 4, 2)),
        ("SPACE_TO_DEPTH", [(1, 8, 4, 2)], (1, 2, 2, 8)),
        ("GATHER_ND", [(5, 9), (2, 1)], (3, 9)),
        ("GATHER", [(5, 9), (2,)], (4, 9)),
    ],
)
def test_an_arena_is_unknown_if_a_kernel_computes_another_shape(
    name: str, shapes: Sequence[tuple[int, ...]], recorded: tuple[int, ...]
) -> None:
    """TFLite Micro plans the shape that these kernels compute, whatever the file records."""
    from formats.tflite.factory import File

    file = File()
    kinds = ("FLOAT32", "INT32")
    fed = [file.main.tensor(kind, shape, kind) for shape, kind in zip(shapes, kinds, strict=False)]
    made = file.main.tensor("y", recorded)
    file.main.op(name, fed, [made])
    file.main.ends(fed, [made])
    assert _arena(file) is None


def test_a_tensor_that_is_fed_and_constant_or_a_variable_is_refused() -> None:
    for fields in ({"data": bytes(16)}, {"isVariable": True}):
        with pytest.raises(CorruptModel, match=r"is an input or an output and also (constant|a variable)"):
            sizeup.load(_single("ADD", (0, 1), (3,), **fields).pack())


def test_a_first_buffer_with_data_is_refused() -> None:
    file = _single("RELU", (0,), (3,))
    file.model.buffers[0].data = [1, 2, 3]
    with pytest.raises(CorruptModel, match="buffer 0"):
        sizeup.load(file.pack())


def test_a_layer_of_a_scalar_has_no_dimension_to_compare() -> None:
    from formats.tflite.factory import File, options

    file = File()
    data, made = (file.main.tensor(name, (), shapeSignature=[-1]) for name in "xy")
    weights = file.main.tensor("w", (4, 1), data=bytes(16))
    file.main.op("FULLY_CONNECTED", [data, weights, -1], [made], options("FullyConnectedOptions"))
    file.main.ends([data], [made])
    assert sizeup.load(file.pack()).tensors[made].shape is None


def test_scales_without_zero_points_quantize_nothing() -> None:
    from formats.tflite.factory import quantized

    quantization = quantized([0.5], [])
    graph = sizeup.load(_single("RELU", (0,), (3,), quantization=quantization).pack())
    assert all(tensor.quant is None for tensor in graph.tensors)


@pytest.mark.parametrize(
    "case", ["no inputs", "no operators", "unmade output", "int4 without data", "variable"]
)
def test_odd_files_have_the_arena_that_the_interpreter_reports(case: str) -> None:
    pytest.importorskip("tflite_micro")
    from formats.tflite.factory import File, options, quantized
    from micro_interpreter import measure

    file = File()
    kind = "FLOAT32" if case != "int4 without data" else "INT8"
    scales: dict[str, Any] = {} if kind == "FLOAT32" else {"quantization": quantized([0.1])}
    data, made, extra = (file.main.tensor(name, (2, 9), kind, **scales) for name in "xyz")
    if case == "variable":  # that no operator reads
        file.main.tensor("v", (3, 50), kind, isVariable=True)
    if case == "int4 without data":
        weights = file.main.tensor("w", (5, 9), "INT4", **scales)
        made = file.main.tensor("r", (2, 5), kind, **scales)
        file.main.op("FULLY_CONNECTED", [data, weights, -1], [made], options("FullyConnectedOptions"))
    elif case != "no operators":
        file.main.op("RELU", [data], [made])
    file.main.ends([] if case == "no inputs" else [data], [extra if case == "unmade output" else made])
    stated, real = _arena(file), measure([file.pack()])[0]
    if case in ("no operators", "unmade output"):
        assert stated is None
    else:
        assert not real.failure
        assert (stated.head_bytes, stated.tail_bytes_64) == (real.head, real.tail)


def test_a_graph_without_operators_holds_its_inputs() -> None:
    from formats.tflite.factory import File

    file = File()
    data = file.main.tensor("x", (3, 3))
    file.main.ends([data], [data])
    plan = sizeup.plan(file.pack())
    assert plan.lower_bound_bytes == plan.peak_bytes == plan.plan_bytes == 36


# ONNX.


def _onnx(op: str, inputs: str, outputs: str, **attributes: Any) -> bytes:
    from formats.onnx.making import model, node, value

    fed = [value(name, (2, 4)) for name in dict.fromkeys(inputs.split()) if name.startswith("x")]
    return bytes(model([node(op, inputs, outputs, **attributes)], fed, outputs).SerializeToString())


@pytest.mark.parametrize(
    ("op", "outputs", "attributes", "message"),
    [
        ("GatherND", "y", {"batch_dims": -128}, "batch_dims"),
        ("Split", "a b c", {"num_outputs": 2}, "num_outputs"),
        ("Split", "a b c", {"num_outputs": 2**31}, "num_outputs"),
        ("LayerNormalization", "y", {"axis": 2**31}, "axis"),
        ("Einsum", "y", {"equation": "ij,\x01k->ik"}, "einsum"),
    ],
)
def test_operators_that_crash_shape_inference_are_refused(
    op: str, outputs: str, attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(CorruptModel, match=message):
        sizeup.load(_onnx(op, "x0 x1", outputs, **attributes))


@pytest.mark.parametrize("inputs", ["m", "m x"])
@pytest.mark.parametrize(
    "op",
    [
        *("EyeLike", "RegexFullMatch", "ai.onnx.ml::DictVectorizer", "ai.onnx.ml::LabelEncoder"),
        "ai.onnx.ml::TreeEnsemble",
    ],
)
def test_operators_that_need_a_type_are_kept_from_inference_without_one(op: str, inputs: str) -> None:
    """Behind an unknown operator, the type of their first input is not known."""
    import numpy as np

    from formats.onnx.making import model, node, numbers, value

    attributes: dict[str, dict[str, Any]] = {
        "EyeLike": {"dtype": 1},
        "ai.onnx.ml::TreeEnsemble": {"nodes_splits": numbers("", [0.5], np.float32)},
    }
    nodes = [node("own::Nowhere", "x", "m"), node(op, inputs, "y", **attributes.get(op, {}))]
    graph = sizeup.load(model(nodes, [value("x", (2, 4))], "y").SerializeToString())
    assert graph.tensors[graph.outputs[0]].shape is None
    assert [each.source for each in graph.ops] == ["own::Nowhere", op]


def test_operators_that_need_a_type_and_have_one_are_inferred() -> None:
    import onnx

    from formats.onnx.making import model, node, value

    matching = node("RegexFullMatch", "x", "y", pattern="a*")
    graph = sizeup.load(model([matching], [value("x", (2, 4), onnx.TensorProto.STRING)], "y"))
    assert graph.tensors[graph.outputs[0]].shape == (2, 4)


@pytest.mark.parametrize("entry", ["length", "offset"])
def test_external_data_of_impossible_size_is_refused(entry: str, tmp_path: Path) -> None:
    from fuzzing.onnx_models import external

    made = external()
    for each in made.graph.initializer[0].external_data:
        if each.key == entry:
            each.value = str(2**63)
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(CorruptModel, match="without a valid file, offset and length"):
        sizeup.load(path)


def test_a_loop_whose_trip_count_is_no_integer_is_unknown() -> None:
    import numpy as np

    from formats.onnx.making import BOOL, INT64, graph, model, node, numbers, value

    body = graph(
        [node("Identity", "c", "go"), node("Neg", "s", "t")],
        [value("i", (), INT64), value("c", (), BOOL), value("s", (2,))],
        "go t",
    )
    trips = numbers("n", 1 + 2j, np.complex64)
    made = model([node("Loop", "n - x", "y", body=body)], [value("x", (2,))], "y", [trips])
    assert sizeup.analyze(made.SerializeToString()).unknown_ops


def test_operators_of_onnx_without_their_operator_set_are_refused() -> None:
    import onnx

    made = onnx.ModelProto.FromString(_onnx("Add", "x0 x1", "y"))
    made.opset_import[0].domain = "elsewhere"
    with pytest.raises(CorruptModel, match="opset_import"):
        sizeup.load(made.SerializeToString())


def test_more_bytes_than_any_machine_holds_come_with_a_caveat() -> None:
    from formats.onnx.making import model, node, value

    names = [f"v{number}" for number in range(400)]
    nodes = [node("Add", f"{one} {one}", other) for one, other in itertools.pairwise(names)]
    made = model(nodes, [value(names[0], (2**25, 2**25))], names[-1])
    report = sizeup.analyze(made.SerializeToString())
    assert report.totals.written_bytes == 399 * 4 * 2**50
    assert any("more than 1 EiB of data" in note for note in report.notes)


def test_a_tensor_that_fits_no_machine_is_refused() -> None:
    """Also one that no operator reads: it would be the peak."""
    from formats.onnx.making import model, node, value

    made = model([node("Relu", "x", "y")], [value("x", (2,)), value("unused", (3138752526071659324,))], "y")
    with pytest.raises(CorruptModel, match="'unused' takes more than 64 PiB"):
        sizeup.load(made.SerializeToString())


@pytest.mark.parametrize("inputs", ["q", "q k", "q k v - past", "q scalar v"])
def test_attention_that_lacks_a_tensor_or_a_dimension_is_checked_for_microcontrollers(inputs: str) -> None:
    from formats.onnx.making import model, node, value

    shapes = {"q": (1, 2, 4, 8), "k": (1, 2, 4, 8), "v": (1, 2, 4, 8), "past": (3,), "scalar": ()}
    fed = [value(name, shape) for name, shape in shapes.items()]
    made = model([node("Attention", inputs, "y")], fed, opset=23)
    check = sizeup.check(made, "stm32f746/tflm", remedies=False)
    assert check.unknown_ops == 1
    assert check.fits is not True


@pytest.mark.parametrize("shape", [[61], [4, 16], [2**59 + 60]])
def test_a_reshape_to_another_number_of_elements_has_no_known_shape(shape: list[int]) -> None:
    """ONNX Runtime refuses it: "The input tensor cannot be reshaped to the requested shape"."""
    from formats.onnx.making import model, node, numbers, value

    nodes = [node("Reshape", "x s", "m"), node("Relu", "m", "y")]
    made = model(nodes, [value("x", (4, 15))], "y", [numbers("s", shape)])
    report = sizeup.analyze(made.SerializeToString())
    assert report.graph.tensors[report.graph.outputs[0]].shape is None
    assert any(f"60 elements cannot be reshaped to {shape}" in note for note in report.notes)


def test_complex_numbers_decide_no_shape() -> None:
    import numpy as np

    from formats.onnx.making import model, node, numbers, value

    places = [numbers(name, [number]) for name, number in (("a", 0), ("b", 2), ("c", 0))]
    steps = numbers("d", [complex("nan")], np.complex64)
    made = model([node("Slice", "x a b c d", "y")], [value("x", (5, 7))], "y", [*places, steps])
    graph = sizeup.load(made.SerializeToString())
    assert graph.tensors[graph.outputs[0]].shape is None


@pytest.mark.parametrize("place", ["input", "initializer", "attribute"])
def test_a_shape_of_many_large_dimensions_is_refused_at_once(place: str) -> None:
    """The product of 100,000 of them takes a minute."""
    import onnx

    from formats.onnx.making import model, node, value

    dims = (2**62,) * 100_000
    stored = onnx.TensorProto(name="w", dims=dims if place != "input" else (2,), data_type=1)
    nodes = [node("Constant", "", "w", value=stored)] if place == "attribute" else []
    fed = value("x", dims if place == "input" else (2,))
    made = model([*nodes, node("Add", "x w", "y")], [fed], "y", [] if nodes else [stored])
    with pytest.raises(CorruptModel, match=r"100,000 dimensions|has the invalid shape") as refusal:
        sizeup.load(made.SerializeToString())
    assert len(str(refusal.value)) < 300


def test_custom_options_of_a_builtin_operator_are_refused_as_by_the_interpreter(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    from fuzzing.tflite_cheats import residual

    for has_options in (False, True):
        file = residual(is_quantized=True)
        if has_options:
            file.main.table.operators[0].customOptions = [0] * 16
        path = tmp_path / "model.tflite"
        path.write_bytes(file.pack())
        reason = sizeup.check(path, "stm32f746/tflm", remedies=False).unsupported_reason
        assert (reason is not None and "custom operator" in reason) == has_options
        assert infer_once(path).outcome == ("refused" if has_options else "ran")


@pytest.mark.extras
@pytest.mark.parametrize("shape", [(), (4,)])
def test_a_global_pool_of_too_few_dimensions_is_checked_for_microcontrollers(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    from formats.onnx.making import model, node, value

    made = model([node("GlobalMaxPool", "x", "y")], [value("x", shape)], "y")
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    assert sizeup.check(path, "stm32f746/tflm", remedies=False).limits


@pytest.mark.extras
def test_what_a_file_records_is_not_stated_if_litert_makes_something_else(tmp_path: Path) -> None:
    """Every kernel with outputs of another shape or dtype on record, most of them smaller."""
    from ai_edge_litert import schema_py_generated as schema

    from fuzzing import runtime_values
    from fuzzing.tflite_models import packed
    from micro_kernels import CASES

    paths: list[Path] = []
    for content in (case.pack() for case in CASES):
        main = schema.ModelT.InitFromPackedBuf(content, 0).subgraphs[0]
        for index in main.operators[-1].outputs.tolist():
            sides = [] if main.tensors[index].shape is None else main.tensors[index].shape.tolist()
            shapes = [[1] * len(sides), sides[:-1], [*sides, 1], [*sides[:-1], 2 * max(sides, default=1)]]
            for field, value in [
                *(("shape", each) for each in shapes),
                ("type", 9),
                ("type", 6),
                ("type", 0),
            ]:
                model = schema.ModelT.InitFromPackedBuf(content, 0)
                setattr(model.subgraphs[0].tensors[index], field, value)
                paths.append(tmp_path / f"{len(paths)} {index}.tflite")
                paths[-1].write_bytes(packed(model))
    compared = marked = 0
    for path, real in zip(paths, runtime_values.values("litert", paths), strict=True):
        made = real.get(path.stem.split()[1])
        if not made:
            continue
        graph = sizeup.load(path)
        stated = graph.tensors[int(path.stem.split()[1])]
        if graph.recomputed_outputs:
            marked += 1
            checked = sizeup.check(path, "rpi5/litert", ram="1GiB", macs=1 << 40, remedies=False)
            assert checked.fits is None, path.name
        elif stated.shape is not None:
            compared += 1
            assert ([*stated.shape], stated.dtype.name) == tuple(made), path.name
    assert compared > 100
    assert marked > 100


@pytest.mark.parametrize("operator", ["IF", "STABLEHLO_COMPOSITE"])
@pytest.mark.parametrize(("passed", "returned"), [((9, 64), (1, 8)), ((1, 8), (9, 64))])
def test_a_subgraph_of_other_shapes_than_those_passed_is_not_counted(
    operator: str, passed: tuple[int, ...], returned: tuple[int, ...], tmp_path: Path
) -> None:
    """LiteRT gives the subgraph the shapes of what is passed, and the operator those of what is returned."""
    from formats.tflite.factory import File, options

    file = File()
    main, inner = file.main, file.subgraph("inner")
    source, made = inner.tensor("a", (1, 8)), inner.tensor("b", (1, 8))
    inner.op("RELU", [source], [made])
    inner.ends([source], [made])
    flag, x, y = main.tensor("flag", (1,), "BOOL"), main.tensor("x", passed), main.tensor("y", returned)
    settings = (
        options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=1)
        if operator == "IF"
        else options("StableHLOCompositeOptions", name="n", decompositionSubgraphIndex=1)
    )
    main.op(operator, [flag, x] if operator == "IF" else [x], [y], settings)
    main.ends([flag, x], [y])
    path = tmp_path / "m.tflite"
    path.write_bytes(file.pack())
    checked = sizeup.check(path, "rpi5/litert", ram="1GiB", strict=True)
    assert checked.fits is None
    assert sizeup.load(path).recomputed_outputs


def test_a_setting_with_a_null_character_is_no_file_of_the_budgets(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").touch()
    path = tmp_path / "budgets.toml"
    path.write_text('[[budget]]\nmodels = "m.tflite"\nmacs = 1\nbaseline = "a\\u0000b"\ngrowth.macs = "5%"\n')
    with pytest.raises(SizeupError):
        read_budgets(path).setting("a\0b")
    with pytest.raises(SizeupError):
        sizeup.check_budgets(path)


def test_a_number_too_large_for_a_float_is_refused() -> None:
    from sizeup.targets import quantities

    with pytest.raises(ValueError, match="9"):
        quantities.parse(f"{'9' * 400} GiB", quantities.SIZE)


def test_a_table_of_times_with_a_lone_carriage_return_is_refused(tmp_path: Path) -> None:
    from sizeup.calibration.calibrate import from_table

    path = tmp_path / "times.csv"
    path.write_bytes(b"a\rb\n")
    with pytest.raises(SizeupError, match=r"times\.csv"):
        from_table(path, None)


@pytest.mark.extras
def test_two_inputs_of_an_exported_program_with_one_name_are_refused() -> None:
    pytest.importorskip("torch")
    from sizeup.formats.torch.bound_sizes import BoundSizes, UserInput

    with pytest.raises(SizeupError, match="one name"):
        BoundSizes([UserInput("x", (2, 3)), UserInput("x", (2,))], None, {})


@pytest.mark.extras
def test_a_table_of_a_store_with_two_columns_of_one_name_is_damaged(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    from sizeup.sweeps.store import Store

    column = pyarrow.array(["a"])
    parquet.write_table(pyarrow.table([column] * 3, names=["key", "model", "model"]), tmp_path / "t.parquet")
    with pytest.raises(SizeupError, match="two columns of one name"):
        list(Store(tmp_path).read(["t.parquet"]))
