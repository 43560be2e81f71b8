"""The TFLite door: .tflite files of LiteRT, TensorFlow Lite and TFLite Micro."""

from sizeup.formats.tflite.read import load

__all__ = ["load"]
