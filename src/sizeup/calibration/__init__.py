"""Rates of a target from times that were measured on it, and the file that keeps them."""

from sizeup.calibration.calibrate import Calibration, Order, calibrate
from sizeup.calibration.fitting import ENOUGH, LEAST, Fitted, Judged, Point, fitted, point
from sizeup.calibration.networks import networks

__all__ = [
    "ENOUGH",
    "LEAST",
    "Calibration",
    "Fitted",
    "Judged",
    "Order",
    "Point",
    "calibrate",
    "fitted",
    "networks",
    "point",
]
