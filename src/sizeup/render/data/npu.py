"""What Vela reports about a model on an Ethos-U, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sizeup.results.parts import NpuFit


def npu_to_dict(npu: NpuFit) -> dict[str, Any]:
    """Returns the compiled model as plain data; keys contain the unit."""
    return {
        "accelerator": npu.accelerator,
        "is_compiled_file": npu.is_compiled_file,
        "reason": npu.reason or None,
        "unsupported_reason": npu.unsupported_reason,
        "file_bytes": npu.file_bytes,
        "arena_low_bytes": None if npu.arena is None else npu.arena[0],
        "arena_high_bytes": None if npu.arena is None else npu.arena[1],
        "arena_unknown_reason": npu.arena_unknown_reason or None,
        "vela": None if npu.compilation is None else npu.compilation.to_dict(),
    }
