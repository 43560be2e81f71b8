"""Sensitivity on networks trained here: what is measured, by what, and that nothing is measured twice."""

from __future__ import annotations

import copy
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import sizeup
from precision import digits
from sizeup.errors import LoadError, SizeupError
from sizeup.formats.torch import runnable_source
from sizeup.mixed_precision import (
    Bench,
    MeasurementOptions,
    SensitivityTable,
    Simulation,
    measure_assignment,
    sensitivity,
    table_from,
)

PARTS = ("features.0", "features.3", "features.7", "features.11", "hidden", "head")


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return digits.trained()


@pytest.fixture(scope="module")
def table(network: nn.Module) -> SensitivityTable:
    train, test = digits.split()
    return sensitivity(network, test.images, test.labels, calibration=train.images[:256], cache=False)


def made_bench(network: nn.Module, **settings: object) -> Bench:
    train, test = digits.split()
    arguments = {"calibration": train.images[:256], "cache": False, **settings}
    return Bench(network, test.images, test.labels, **arguments)  # type: ignore[arg-type]


def test_the_networks_know_their_digits(network: nn.Module) -> None:
    train, test = digits.split()
    assert (len(train.labels), len(test.labels)) == (1198, 599)
    assert digits.accuracy(network) >= 0.97


def test_every_layer_has_a_row_at_every_precision(table: SensitivityTable) -> None:
    assert tuple(layer.name for layer in table.layers) == PARTS
    assert table.precisions == ("fp32", "fp16", "int8", "int4", "int2")
    assert [(row.layer.name, row.precision) for row in table.rows] == [
        (part, name) for part in PARTS for name in table.precisions[1:]
    ]
    assert any("int4, int2: simulated" in note for note in table.notes)
    assert table_from(json.loads(json.dumps(table.to_dict(), allow_nan=False))) == table


def test_narrower_types_lose_more(table: SensitivityTable) -> None:
    losses = table.losses()
    for layer in table.layers:
        measured = [losses[layer.op][name] for name in table.precisions]
        assert measured == sorted(measured)
        assert measured[0] == 0 < measured[1]
    noise = [table.uniform[name].noise for name in table.precisions[1:]]
    assert noise == sorted(noise)
    # By 6 dB a bit, between types with enough steps.
    gain = table.uniform["int8"].sqnr_db - table.uniform["int4"].sqnr_db
    assert 18 < gain < 30


def test_the_numbers_are_those_of_the_outputs_themselves(network: nn.Module) -> None:
    _, test = digits.split()
    bench = made_bench(network)
    chosen = {bench.layers[0].op: "int4", bench.layers[4].op: "int2"}
    measured = bench.measure(chosen)
    with torch.inference_mode():
        true = network(torch.from_numpy(test.images))
    got, labels = torch.from_numpy(bench.outputs(chosen)), torch.from_numpy(test.labels)
    noise = (true - got).double().square().sum()
    assert measured.sqnr_db == pytest.approx(
        float(10 * torch.log10(true.double().square().sum() / noise)), rel=1e-4
    )
    wide, narrow = (functional.log_softmax(each.double(), 1) for each in (true, got))
    kl = functional.kl_div(narrow, wide, reduction="batchmean", log_target=True)
    assert measured.kl == pytest.approx(float(kl), rel=1e-3)
    assert measured.accuracy == pytest.approx(float((got.argmax(1) == labels).double().mean()))
    grown = functional.cross_entropy(got.double(), labels) - functional.cross_entropy(true.double(), labels)
    assert measured.loss == pytest.approx(float(grown), abs=1e-5)
    assert bench.baseline().accuracy == pytest.approx(digits.accuracy(network))


class _ByHand(nn.Module):
    """The convolutional network with some layers at 8 bits, written out by torch's own fake quantization."""

    def __init__(self, network: nn.Module, calibration: Tensor) -> None:
        super().__init__()
        self.network = network
        self.ranges: dict[str, tuple[float, int]] = {}
        self.learning = True
        with torch.inference_mode():
            self(calibration)
        self.learning = False

    def rounded(self, name: str, x: Tensor) -> Tensor:
        if self.learning:
            low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
            scale = float(np.float32((high - low) / 255))
            self.ranges[name] = (scale, round(-128 - low / scale))
            return x
        return torch.fake_quantize_per_tensor_affine(x, *self.ranges[name], -128, 127)

    def weight(self, layer: nn.Module) -> Tensor:
        weight = layer.weight
        assert isinstance(weight, Tensor)
        if self.learning:
            return weight
        scale = weight.detach().flatten(1).abs().amax(1) / 127
        points = torch.zeros(len(scale), dtype=torch.int32)
        return torch.fake_quantize_per_channel_affine(weight, scale, points, 0, -127, 127)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.network.get_submodule("features")
        assert isinstance(parts, nn.Sequential)
        # The second convolution alone: its input, its weights, and what leaves its rectifier.
        x = self.rounded("read", parts[:3](x))
        x = functional.conv2d(x, self.weight(parts[3]), padding=1)
        x = self.rounded("made", functional.relu(parts[4](x)))
        x = parts[6:](x).flatten(1)
        head, hidden = self.network.get_submodule("head"), self.network.get_submodule("hidden")
        # And the head: its input and its output.
        x = self.rounded("hidden", functional.relu(hidden(x)))
        return self.rounded("out", functional.linear(x, self.weight(head), head.bias))  # type: ignore[arg-type]


def test_a_run_is_that_of_the_network_with_its_rounding_written_out(network: nn.Module) -> None:
    train, test = digits.split()
    bench = made_bench(network)
    measured = bench.outputs({"features.3": "int8", "head": "int8"})
    by_hand = _ByHand(network, torch.from_numpy(train.images[:256])).eval()
    with torch.inference_mode():
        expected = by_hand(torch.from_numpy(test.images)).numpy()
    step = by_hand.ranges["out"][0]
    # A sum may be rounded otherwise in its last bit, and so fall on the next number of the grid.
    assert np.abs(measured - expected).max() <= 2.1 * step
    assert (np.abs(measured - expected) > step / 2).mean() < 0.01


def test_one_layer_alone_is_what_an_assignment_of_it_is(network: nn.Module, table: SensitivityTable) -> None:
    train, test = digits.split()
    row = next(each for each in table.rows if (each.layer.name, each.precision) == ("features.7", "int4"))
    measured = measure_assignment(
        network,
        test.images,
        {"features.7": "int4", "head": "fp32"},
        test.labels,
        calibration=train.images[:256],
        cache=False,
    )
    assert measured == row.losses
    everything = measure_assignment(
        network, test.images, {"*": "int8"}, test.labels, calibration=train.images[:256], cache=False
    )
    assert everything == table.uniform["int8"]


def test_the_module_is_left_as_it_was(network: nn.Module) -> None:
    module = copy.deepcopy(network).train()
    before = {name: each.clone() for name, each in module.state_dict().items()}
    _, test = digits.split()
    measure_assignment(module, test.images[:32], {"head": "int4"}, cache=False)
    assert all(each.training for each in module.modules())
    after = module.state_dict()
    assert all(torch.equal(after[name], each) for name, each in before.items())


def test_what_was_measured_is_not_measured_again(network: nn.Module, tmp_path: Path) -> None:
    first = made_bench(network, cache=tmp_path)
    whole = first.sensitivity(["int8", "int4"])
    assert first.runs == 1 + 2 * 6 + 2  # the float network, each layer, all of them
    again = made_bench(network, cache=tmp_path)
    assert again.sensitivity(["int8", "int4"]) == whole
    assert again.runs == 0
    # What stands in the file is believed.
    (path,) = tmp_path.iterdir()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 15
    lines[3]["kl"] = 123.0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    poisoned = made_bench(network, cache=tmp_path)
    assert sum(row.kl == 123.0 for row in poisoned.sensitivity(["int8", "int4"]).rows) == 1
    assert poisoned.runs == 0


def test_an_interrupted_measurement_goes_on_where_it_ended(network: nn.Module, tmp_path: Path) -> None:
    class Interrupted(Exception):
        pass

    def stop(done: int, total: int, what: str) -> None:
        if done == 3:
            raise Interrupted(what)

    with pytest.raises(Interrupted, match=r"features.11 at int4"):
        made_bench(network, cache=tmp_path).sensitivity(["int4"], stop)
    (path,) = tmp_path.iterdir()
    with path.open("a") as file:
        file.write('{"key": "{\\"0')  # the writer was ended in the middle
    seen: list[tuple[int, int, str]] = []
    bench = made_bench(network, cache=tmp_path)
    bench.sensitivity(["int4"], lambda *step: seen.append(step))
    assert bench.runs == 1 + 3 + 1
    assert [done for done, _, _ in seen] == list(range(8))
    assert {total for _, total, _ in seen} == {7}
    assert seen[1][2] == "features.3 at int4"
    assert seen[6][2] == "all layers at int4"


def test_another_model_other_data_and_other_settings_are_measured_anew(
    network: nn.Module, tmp_path: Path
) -> None:
    class Scaled(nn.Module):
        """The same weights and operators, another number between them."""

        def __init__(self, factor: float) -> None:
            super().__init__()
            self.network, self.factor = network, factor

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.network(x) * self.factor
            return made

    changed = copy.deepcopy(network)
    with torch.no_grad():
        changed.get_parameter("head.bias")[0] += 1e-3
    _, test = digits.split()
    few = test.images[:64]
    ways: list[tuple[nn.Module, object, dict[str, Any]]] = [
        (network, few, {}), (changed, few, {}), (network, few + np.float32(1e-3), {}),
        (Scaled(2.0), few, {}), (Scaled(3.0), few, {}),
        (network, few, {"options": MeasurementOptions(Simulation(symmetric=True))}),
        (network, few, {"options": MeasurementOptions(meaning="values")}),
        (network, few, {"calibration": few[:8]}),
    ]  # fmt: skip
    for count, (module, data, settings) in enumerate(ways, 1):
        measure_assignment(module, data, {"*hidden": "int8"}, cache=tmp_path, **settings)
        assert len(list(tmp_path.iterdir())) == count


def test_settings_do_what_they_say(network: nn.Module) -> None:
    everything = {"*": "int4"}
    measured = {
        name: made_bench(network, options=MeasurementOptions(simulation)).measure(everything)
        for name, simulation in {
            "plain": Simulation(),
            "symmetric": Simulation(symmetric=True),
            "kept": Simulation(activations="kept"),
            "int8": Simulation(activations="int8"),
            "tight": Simulation(clipping="error"),
        }.items()
    }
    # A rectifier's numbers lie on one side of zero: a grid around zero has half of its steps for nothing.
    assert measured["symmetric"].sqnr_db < measured["plain"].sqnr_db - 3
    assert measured["plain"].sqnr_db < measured["int8"].sqnr_db
    assert measured["int8"].sqnr_db == pytest.approx(measured["kept"].sqnr_db, abs=0.5)
    assert measured["tight"] != measured["plain"]
    weights_only = MeasurementOptions(Simulation(activations="kept"))
    weights = made_bench(network, options=weights_only).outputs(everything)
    rounded = copy.deepcopy(network)
    with torch.no_grad():
        for layer in rounded.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                scale = layer.weight.flatten(1).abs().amax(1) / 7
                scale = scale.reshape(-1, *[1] * (layer.weight.dim() - 1))
                layer.weight.copy_(torch.round(layer.weight / scale).clamp(-7, 7) * scale)
        expected = rounded(torch.from_numpy(digits.split()[1].images)).numpy()
    np.testing.assert_allclose(weights, expected, atol=2e-4)


class Twice(nn.Module):
    """One module that is called twice, a product of two activations, an operator in place, two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(6, 6)
        self.scale = nn.Parameter(torch.randn(6, 6))
        self.table = nn.Embedding(5, 6)

    def forward(self, x: Tensor, ids: Tensor) -> dict[str, Tensor]:
        y = self.shared(torch.relu_(self.shared(x) + self.table(ids)))
        mixed = y @ self.scale
        return {"values": torch.matmul(mixed.unsqueeze(1), y.unsqueeze(2)).flatten(1), "other": mixed}


def test_layers_are_found_wherever_they_are_called() -> None:
    torch.manual_seed(0)
    module = Twice().eval()
    generator = np.random.default_rng(0)
    data = {"x": generator.normal(size=(40, 6)).astype(np.float32), "ids": generator.integers(0, 5, 40)}
    options = MeasurementOptions(meaning="values", batch=16)
    bench = Bench(module, data, options=options, cache=False)
    assert [layer.name for layer in bench.layers] == ["shared", "table", "shared", "matmul", "matmul_1"]
    table = bench.sensitivity(["int8", "bf16"])
    assert table.default_measure == "noise"
    assert all(0 < row.losses.noise < 0.05 and row.kl is None for row in table.rows)
    first, second = (bench.outputs({bench.layers[place].op: "int4"}) for place in (0, 2))
    assert not np.array_equal(first, second)
    # The other output: the product at the end has no part in it.
    other = Bench(module, data, options=MeasurementOptions(meaning="values", output=1), cache=False)
    assert other.measure({"matmul_1": "int2"}).sqnr_db == math.inf
    assert other.measure({"matmul": "int2"}).sqnr_db < 20


def test_attention_that_torch_fuses_is_measured() -> None:
    torch.manual_seed(0)

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
            self.head = nn.Linear(16, 4)

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.head(self.attention(x, x, x, need_weights=False)[0].mean(1))
            return made

    data = np.random.default_rng(0).normal(size=(32, 5, 16)).astype(np.float32)
    table = sensitivity(Attention().eval(), data, precisions=["int8", "int4"], cache=False)
    assert [layer.name for layer in table.layers] == ["attention", "head"]
    assert all(row.sqnr_db > (30 if row.precision == "int8" else 8) for row in table.rows)


def test_programs_run_as_the_modules_that_they_came_from(network: nn.Module, tmp_path: Path) -> None:
    _, test = digits.split()
    program = torch.export.export(network, (torch.from_numpy(test.images[:48]),))
    path = tmp_path / "digits.pt2"
    torch.export.save(program, path)
    chosen = {"features.3": "int4", "head": "int8"}
    for source, count in itertools.product((program, runnable_source(path, trusted=True)), (48, 60)):
        bench = Bench(source, test.images[:count], cache=False, calibration=test.images[:48])
        expected = Bench(network, test.images[:count], cache=False, calibration=test.images[:48])
        np.testing.assert_allclose(bench.outputs(chosen), expected.outputs(chosen), atol=1e-4)


def test_a_softmax_at_the_end_makes_probabilities(network: nn.Module) -> None:
    _, test = digits.split()
    bench = Bench(nn.Sequential(network, nn.Softmax(1)), test.images[:64], cache=False)
    assert bench.meaning == "probabilities"
    weights_only = MeasurementOptions(Simulation(activations="kept"))
    plain = Bench(network, test.images[:64], cache=False, options=weights_only)
    ended = Bench(
        nn.Sequential(network, nn.Softmax(1)),
        test.images[:64],
        cache=False,
        options=MeasurementOptions(Simulation(activations="kept")),
    )
    assert ended.measure({"0.head": "int4"}).kl == pytest.approx(plain.measure({"head": "int4"}).kl, rel=1e-3)


def test_what_cannot_be_measured_is_refused(network: nn.Module) -> None:
    _, test = digits.split()
    few = test.images[:8]
    bench = Bench(network, few, cache=False)
    with pytest.raises(SizeupError, match="no layer matches 'tail'"):
        bench.measure({"tail": "int8"})
    with pytest.raises(SizeupError, match="operator 99 is out of range"):
        bench.measure({99: "int8"})
    with pytest.raises(SizeupError, match="cannot be simulated"):
        bench.measure({"head": "fp8"})
    with pytest.raises(SizeupError, match="do not match outputs"):
        Bench(network, few, np.zeros(few.shape[:2], np.int64), cache=False).measure({"head": "int8"})
    with pytest.raises(SizeupError, match="output 3 is out of range"):
        Bench(network, few, options=MeasurementOptions(output=3), cache=False).measure({"head": "int8"})
    with pytest.raises(LoadError, match="forward failed"):
        Bench(network, few[:, :, :3], cache=False)
    with pytest.raises(SizeupError, match="a graph cannot be run"):
        Bench(sizeup.load(network, inputs=((1, 1, 8, 8),)), few, cache=False)
    with pytest.raises(SizeupError, match=r"net\.tflite: "):
        Bench("net.tflite", few, cache=False)
    with pytest.raises(LoadError, match="has no trained weights"):
        Bench("torchvision:resnet18", np.zeros((1, 3, 64, 64), np.float32), cache=False)
    with pytest.raises(SizeupError, match="unknown clipping"):
        Simulation(clipping="some")  # type: ignore[arg-type]
