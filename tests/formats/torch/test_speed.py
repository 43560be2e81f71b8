"""Recording costs little beside the bare forward on the same content-free tensors."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch

from sizeup.formats.torch.eager import fake_mode, record
from sizeup.formats.torch.zoo import import_torchvision

MODELS = ("mobilenet_v2", "resnet50", "efficientnet_b0", "mobilenet_v3_small", "vit_b_16", "densenet121")
SHAPE = (1, 3, 224, 224)


def _cpu_seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


@pytest.mark.parametrize("name", MODELS)
def test_recording_is_at_most_a_third_slower_than_running(name: str) -> None:
    module = import_torchvision().models.get_model(name, weights=None).eval()

    def bare() -> None:
        mode = fake_mode()
        image = mode.from_tensor(torch.zeros(SHAPE))
        with torch.inference_mode(), mode:
            module(image)

    bare()
    record(module, (SHAPE,))
    # In turns, and the least of each: a busy machine disturbs single runs. More turns where they are needed.
    plain, recorded = [], []
    for turn in range(20):
        plain.append(_cpu_seconds(bare))
        recorded.append(_cpu_seconds(lambda: record(module, (SHAPE,))))
        if turn >= 4 and min(recorded) <= 1.3 * min(plain):
            break
    assert min(recorded) <= 1.3 * min(plain)
