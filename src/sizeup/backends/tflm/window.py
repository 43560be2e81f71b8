"""The window of a convolution, as kernel libraries for microcontrollers see it."""

from __future__ import annotations

from typing import NamedTuple

from sizeup.backends.tflm.kernel_call import Call, shape_of


class Window(NamedTuple):
    """A convolution: shapes (batch, height, width, channels), and pairs (height, width)."""

    data: tuple[int, ...]
    filter: tuple[int, ...]  # filters, height, width, channels
    result: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]

    @property
    def is_pointwise(self) -> bool:
        """Whether it is a product of matrices."""
        return (
            self.padding == (0, 0)
            and self.filter[1:3] == (1, 1)
            and self.dilation == (1, 1)
            and self.data[3] == self.filter[3]
        )

    @property
    def is_one_row(self) -> bool:
        """Whether both data and filter have one row, in the cases that have a separate function."""
        return (
            self.data[1] == self.filter[1] == self.dilation[1] == 1
            and self.stride[1] * self.data[3] % 4 == 0
            and self.data[3] == self.filter[3]
        )


def window_of(call: Call) -> Window:
    """The window of a convolution's kernel; raises Incomplete if a shape depends on data."""
    data, weights, result = (shape_of(tensor) for tensor in (call.input(0), call.input(1), call.output()))
    attrs = call.op.attrs
    stride, dilation = (tuple(attrs.get(name, (1, 1))) for name in ("stride", "dilation"))
    padding = (0, 0)
    if attrs.get("padding") == "same":
        first, second = (
            max(
                (result[axis] - 1) * stride[axis - 1]
                + (weights[axis] - 1) * dilation[axis - 1]
                + 1
                - data[axis],
                0,
            )
            // 2
            for axis in (1, 2)
        )
        padding = (first, second)
    return Window(data, weights, result, stride, dilation, padding)
