"""Modules with symbolic dimensions: closed forms equal fresh loads at every point, or state a reason."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import sizeup
from free_points import assert_equal_to_fresh_loads, assert_same_graph
from sizeup.errors import LoadError, SizeupError, UnboundDimension
from sizeup.symbolic import SymbolicGraph

PICTURE = {"batch": (0, 0), "height": (0, 2), "width": (0, 3)}


class Windows(nn.Module):
    """Pads to a multiple of the window size, as shifted windows do."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 16)

    def forward(self, x: Tensor) -> Tensor:
        below, right = -x.shape[1] % 4, -x.shape[2] % 4
        if below or right:
            x = functional.pad(x, (0, 0, 0, right, 0, below))
        batch, height, width, channels = x.shape
        x = x.view(batch, height // 4, 4, width // 4, 4, channels)
        result: Tensor = self.project(x.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, channels))
        return result


class Specialized(nn.Module):
    """Python code branches on the height of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv2d(3, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        rows = [self.inner(x[:, :, row : row + 1]) for row in range(int(x.shape[2]))]
        return torch.cat(rows, dim=2)


class Pieces(nn.Module):
    """Operators whose shapes and attributes depend on sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, dilation=2)
        self.up = nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1)
        self.head = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(self.first(x), 3, stride=2, ceil_mode=True)
        whole = functional.avg_pool2d(x, kernel_size=x.shape[2:])
        x = functional.interpolate(self.up(x), scale_factor=2.0, mode="bilinear") + 1
        x = torch.cat([x, x.flip(2)], dim=3)[:, :, 1:, ::2]
        scores = x.flatten(2).transpose(1, 2)
        result: Tensor = self.head(scores).softmax(dim=1).mean(dim=1) + whole.mean()
        return result


class Gathered(nn.Module):
    """The output shape depends on data."""

    def forward(self, x: Tensor) -> Tensor:
        return x[x > 0] * 2


def _points(names: Mapping[str, tuple[int, int]], count: int, seed: int = 0) -> list[dict[str, int]]:
    random_numbers = random.Random(seed)
    return [
        {name: random_numbers.randint(low, high) for name, (low, high) in names.items()} for _ in range(count)
    ]


def _pictures(low: int, high: int, count: int, seed: int = 0) -> list[dict[str, int]]:
    return _points({"batch": (1, 20), "height": (low, high), "width": (low, high)}, count, seed)


def _fresh(module: nn.Module, channels_last: bool = False) -> Callable[[Mapping[str, int]], Any]:
    def load(point: Mapping[str, int]) -> Any:
        batch, height, width = point["batch"], point["height"], point["width"]
        shape = (batch, height, width, 8) if channels_last else (batch, 3, height, width)
        return sizeup.load(module, inputs=(shape,))

    return load


def test_every_kind_of_shape_is_that_of_a_fresh_load() -> None:
    module = Pieces().eval()
    free = sizeup.load(module, inputs=((1, 3, 64, 80),), free=PICTURE)
    assert_equal_to_fresh_loads(free, _fresh(module), _pictures(15, 90, 12))
    assert all(each.reason is None for each in free.specializations)


def test_a_model_that_pads_what_does_not_divide_has_a_closed_form_for_each_case() -> None:
    module = Windows()
    free = sizeup.load(
        module, inputs=((2, 16, 16, 8),), free={"batch": (0, 0), "height": (0, 1), "width": (0, 2)}
    )
    points = [*_pictures(1, 60, 12), {"batch": 1, "height": 8, "width": 12}]
    assert_equal_to_fresh_loads(free, _fresh(module, channels_last=True), points)
    assert len(free.specializations) > 1
    locations = [where for each in free.specializations for where in each.guard_sources.values()]
    assert any("the model" in where for where in locations)


def test_who_specialized_a_dimension_is_named_and_other_points_are_exact() -> None:
    module = Specialized()
    free = sizeup.load(module, inputs=((2, 3, 5, 7),), free=PICTURE)
    fixed = {
        str(each): where
        for each, where in free.specializations[0].guard_sources.items()
        if each.relation == "=="
    }
    assert list(fixed) == ["height == 5"]
    assert "in the model" in fixed["height == 5"]
    assert_equal_to_fresh_loads(free, _fresh(module), _pictures(1, 6, 8))


def test_dimensions_that_data_decides_stay_unknown() -> None:
    free = sizeup.load(Gathered(), inputs=((4, 6),), free={"batch": (0, 0)})
    counts = sizeup.count(free).at(batch=[1, 5])
    assert counts.is_known.tolist() == [False, False]
    fresh = sizeup.load(Gathered(), inputs=((5, 6),))
    assert_same_graph(free.at(batch=5), fresh)


def test_one_name_may_stand_for_several_places() -> None:
    class Joined(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x @ y

    shapes = ((3, 4, 5), (3, 5, 6))
    free = sizeup.load(Joined(), inputs=shapes, free={"batch": [(0, 0), ("y", 0)], "inner": [(0, 2), (1, 1)]})
    counts = sizeup.count(free).at(batch=np.array([1, 7]), inner=np.array([[5], [9]]))
    assert counts.macs.tolist() == [[4 * 5 * 6, 7 * 4 * 5 * 6], [4 * 9 * 6, 7 * 4 * 9 * 6]]
    assert counts.macs.dtype == np.int64


@pytest.mark.parametrize(
    ("free", "message"),
    [
        ({"batch": (3, 0)}, "no input 3"),
        ({"batch": ("z", 0)}, "no input 'z'"),
        ({"batch": (0, 7)}, "no axis 7"),
        ({"side": [(0, 2), (0, 3)]}, "conflicting sizes 8 and 9"),
        ({"batch": 0}, "specified as \\(input, axis\\)"),
        (["depth"], "specify its"),
    ],
)
def test_places_that_are_not_there_are_refused(free: Any, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        sizeup.load(Windows(), inputs=((1, 3, 8, 9),), free=free)


def test_sizes_that_the_model_refuses_are_refused_with_its_own_words() -> None:
    class Fixed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            assert x.shape[2] == 8, "pictures are 8 high"
            return x * 2

    free = sizeup.load(Fixed(), inputs=((2, 3, 8, 8),), free=PICTURE)
    assert sizeup.count(free).at(batch=3, height=8, width=5).elementwise_ops == 3 * 3 * 8 * 5
    with pytest.raises(LoadError, match="pictures are 8 high"):
        free.at(batch=3, height=9, width=5)


def test_a_free_graph_has_to_be_bound_for_what_needs_sizes() -> None:
    free = sizeup.load(Pieces().eval(), inputs=((1, 3, 64, 80),), free=["batch"])
    with pytest.raises(UnboundDimension, match="batch"):
        sizeup.analyze(free)
    with pytest.raises(SizeupError, match="sizes are missing"):
        free.at()
    bound = sizeup.analyze(free, bind={"batch": 3})
    fresh = sizeup.analyze(Pieces().eval(), inputs=((3, 3, 64, 80),))
    assert bound.totals == fresh.totals
    assert bound.memory is not None
    assert fresh.memory is not None
    assert bound.memory.peak_bytes == fresh.memory.peak_bytes


def test_modules_take_the_same_way_as_with_plain_sizes() -> None:
    """Attention has a fast path, which it skips if another torch function mode is active."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    free = sizeup.load(layer, inputs=((2, 7, 16),), free=["batch", "seq"])
    points = _points({"batch": (1, 9), "seq": (1, 40)}, 6)
    cost = assert_equal_to_fresh_loads(
        free, lambda point: sizeup.load(layer, inputs=((point["batch"], point["seq"], 16),)), points
    )
    assert [op.kind for op in cost.forms[0].graph.ops][:1] == ["attention_layer"]
    assert all(each.reason is None for each in free.specializations)


def test_the_model_and_torch_are_left_as_they_were() -> None:
    module = Pieces().eval()
    before = {name: id(value) for name, value in vars(module).items()}
    chosen, indexed = torch._C._select_conv_backend, torch.Tensor.__getitem__
    has_torch_function = torch.overrides.has_torch_function
    sizeup.load(module, inputs=((1, 3, 64, 80),), free=PICTURE)
    assert torch._C._select_conv_backend is chosen
    assert torch.Tensor.__getitem__ is indexed
    assert torch.overrides.has_torch_function is has_torch_function
    assert {name: id(value) for name, value in vars(module).items()} == before


def test_torch_still_makes_tensors_of_scalars_afterwards() -> None:
    """It would not if `Tensor.__getitem__` had been replaced in the process."""
    script = """
import sizeup, torch
sizeup.load("torchvision:vit_b_16", free=["batch"])
assert torch.tensor([torch.tensor(-1)]).tolist() == [-1]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_times_at_points_are_those_of_fresh_loads() -> None:
    module = Pieces().eval()
    free = sizeup.load(module, inputs=((1, 3, 64, 80),), free=PICTURE)
    times = sizeup.estimate(free, "rpi5/litert").at(batch=[1, 4], height=65, width=[[70], [33]])
    for row, width in enumerate((70, 33)):
        for column, batch in enumerate((1, 4)):
            fresh = sizeup.estimate(module, "rpi5/litert", inputs=((batch, 3, 65, width),))
            assert times.seconds[row, column] == pytest.approx(fresh.seconds, rel=1e-12)
            assert times.low[row, column] == pytest.approx(fresh.low, rel=1e-12)


_WIDTHS = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
_GROUPED = {**_WIDTHS, "num_key_value_heads": 2, "torch_dtype": "bfloat16"}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert", **_WIDTHS},
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **_GROUPED},
    "mixtral": {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "num_local_experts": 4,
        **_GROUPED,
    },
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_transformers_equal_fresh_loads(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(CONFIGURATIONS[name]))
    free = sizeup.load(f"hf:{path}", free=["batch", "seq"])
    points = [
        *_points({"batch": (1, 20), "seq": (1, 300)}, 5),
        {"batch": 1, "seq": 1},
        {"batch": 3, "seq": 1},
    ]
    cost = assert_equal_to_fresh_loads(free, lambda point: sizeup.load(f"hf:{path}", bind=point), points)
    assert all(each.reason is None for each in free.specializations)
    assert "seq**2" in str(sum(cost.forms[0].macs))


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "convnext_tiny"])
def test_image_models_equal_fresh_loads(name: str) -> None:
    source = f"torchvision:{name}"

    def load(point: Mapping[str, int]) -> Any:
        return sizeup.load(source, inputs=((point["batch"], 3, point["height"], point["width"]),))

    free = sizeup.load(source, free=["batch", "height", "width"])
    assert isinstance(free, SymbolicGraph)
    assert_equal_to_fresh_loads(free, load, _pictures(65, 330, 4))
    assert all(each.reason is None for each in free.specializations)


@pytest.mark.parametrize("saved", [False, True])
def test_an_exported_program_keeps_its_dynamic_shapes_free(saved: bool, tmp_path: Path) -> None:
    dynamic = torch.export.Dim.DYNAMIC
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(2), nn.Softmax(1)
    )
    program: Any = torch.export.export(
        module.eval(), (torch.zeros(3, 3, 64, 80),), dynamic_shapes=({0: dynamic, 2: dynamic, 3: dynamic},)
    )
    if saved:
        path = tmp_path / "pieces.pt2"
        torch.export.save(program, path)
        program = path
    axes = {name: ("input", axis) for name, axis in (("batch", 0), ("height", 2), ("width", 3))}
    free = sizeup.load(program, free=axes)

    def load(point: Mapping[str, int]) -> Any:
        return sizeup.load(program, bind={f"input.{axes[name][1]}": value for name, value in point.items()})

    assert_equal_to_fresh_loads(free, load, _pictures(16, 90, 4, seed=3))
    assert all(each.reason is None for each in free.specializations)
    assert len(sizeup.load(program, free=True).names) == 3
    with pytest.raises(LoadError, match="does not match exactly one symbolic dimension"):
        sizeup.load(program, free={"depth": ("input", 1)})


def test_a_point_that_the_model_refuses_does_not_cost_the_others_their_formula() -> None:
    class Even(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            assert x.shape[2] % 2 == 0, "even pictures only"
            return x * 2

    free = sizeup.load(Even(), inputs=((2, 3, 8, 8),), free=PICTURE)
    with pytest.raises(LoadError, match="even pictures only"):
        free.at(batch=3, height=9, width=5)
    free.at(batch=1, height=10, width=1)
    assert [each.reason for each in free.specializations] == [None] * len(free.specializations)
