"""When memory is in use, in which order to run, and where to put what."""

from sizeup.memory.check import check_offsets, check_order
from sizeup.memory.liveness import Buffers, lifetimes, tensor_bytes

__all__ = ["Buffers", "check_offsets", "check_order", "lifetimes", "tensor_bytes"]
