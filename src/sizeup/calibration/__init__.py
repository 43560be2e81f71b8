"""Calibrate a target: fit rates to measured latencies and write them to a file."""

from sizeup.calibration.calibrate import Calibration, CalibrationOptions, calibrate
from sizeup.calibration.networks import networks
from sizeup.calibration.regression import (
    MIN_MEASUREMENTS,
    RECOMMENDED_MEASUREMENTS,
    FittedRates,
    HeldOutPrediction,
    NetworkMeasurement,
    fit_calibration,
    network_measurement,
)

__all__ = [
    "MIN_MEASUREMENTS",
    "RECOMMENDED_MEASUREMENTS",
    "Calibration",
    "CalibrationOptions",
    "FittedRates",
    "HeldOutPrediction",
    "NetworkMeasurement",
    "calibrate",
    "fit_calibration",
    "network_measurement",
    "networks",
]
