"""Write the sample model that ships with the package: python tools/sample_model.py

A small int8 image classifier with random weights: 80 x 80 gray pixels, ten classes. Two branches of its first
block are interleaved in the file, as converters write them, so that a better schedule needs less memory.
"""

from __future__ import annotations

from sizeup.calibration.network_spec import NetworkBuilder
from sizeup.calibration.write_tflite import tflite_file
from sizeup.cli.demo import SAMPLE


def sample_model() -> bytes:
    """The content of the sample file."""
    builder = NetworkBuilder("sample", "sample", (80, 80, 1), "int8")
    start = builder.conv(8, 3, 2)
    wide, wider = builder.conv(16, 1, x=start), builder.conv(16, 1, x=start)
    small, large = builder.depthwise(3, 2, x=wide), builder.depthwise(5, 2, x=wider)
    builder.concat(small, large)
    for size in (32, 48):
        builder.conv(size, 1)
        builder.depthwise(3, 2)
    end = builder.conv(64, 1)
    builder.add(builder.conv(64, 1, act="", x=builder.depthwise(3, x=end)), end, "relu")
    builder.mean()
    builder.tokens()
    builder.reshape(64)
    builder.linear(10)
    builder.softmax()
    return tflite_file(builder.build())


if __name__ == "__main__":
    SAMPLE.write_bytes(sample_model())
