"""Rates of a target from times that were measured on it, and the file that keeps them."""

from sizeup.calibration.calibrate import Calibration, Order, calibrate
from sizeup.calibration.fitting import ENOUGH, LEAST, Fitted, Judged, fitted
from sizeup.calibration.networks import networks
from sizeup.calibration.points import Point, point

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
