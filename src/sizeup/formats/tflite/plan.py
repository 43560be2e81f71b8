"""The memory plan that a file may hold for TFLite Micro, which takes it as it is."""

from __future__ import annotations

import struct

from sizeup.formats.tflite.model import Model

PLAN = "OfflineMemoryAllocation"
_HEAD = 3  # format version, number of subgraphs, number of tensors in all of them


def stored_plan(model: Model) -> tuple[int, ...]:
    """An offset for every tensor of all subgraphs, -1 for those not planned; empty without a plan."""
    root = model.root
    for index in range(model.limits.length(root.MetadataLength())):
        entry = root.Metadata(index)
        if entry.Name() == PLAN.encode():
            buffer = root.Buffers(entry.Buffer())
            content = buffer.DataAsNumpy()
            if isinstance(content, int):  # the schema's way to say that there is none
                break
            data = content.tobytes()
            return struct.unpack(f"<{len(data) // 4}i", data[: len(data) // 4 * 4])[_HEAD:]
    return ()
