"""The memory plan that a file may hold for TFLite Micro, which takes it as it is."""

from __future__ import annotations

import struct

from sizeup.errors import CorruptModel
from sizeup.formats.tflite.model import Model

PLAN = "OfflineMemoryAllocation"
_NONE = -1
_HEAD = 3  # format version, number of subgraphs, number of tensors in all of them


def stored_plan(model: Model) -> tuple[int, ...]:
    """An offset for every tensor of all subgraphs, -1 for those not planned; empty without a plan."""
    root = model.root
    for index in range(model.limits.length(root.MetadataLength())):
        entry = root.Metadata(index)
        if entry.Name() == PLAN.encode():
            if entry.Buffer() >= model.limits.length(root.BuffersLength()):
                raise CorruptModel(
                    f"{model.limits.name}: metadata {PLAN!r} names buffer {entry.Buffer()} of"
                    f" {root.BuffersLength()}"
                )
            content = root.Buffers(entry.Buffer()).DataAsNumpy()
            if isinstance(content, int):  # the schema's way to say that there is none
                break
            data = content.tobytes()
            return _offsets(struct.unpack(f"<{len(data) // 4}i", data[: len(data) // 4 * 4]))
    return ()


def _offsets(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """As many offsets as the head says there are; one more than there are, where it says too much."""
    head, offsets = numbers[:_HEAD], numbers[_HEAD:]
    if len(head) == _HEAD and head[-1] > len(offsets):
        return (*offsets, _NONE)
    return offsets[: head[-1]] if len(head) == _HEAD and head[-1] >= 0 else ()
