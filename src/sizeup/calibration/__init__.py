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
from sizeup.calibration.serving import ServingCalibration, ServingCalibrationOptions, calibrate_serving

__all__ = [
    "MIN_MEASUREMENTS",
    "RECOMMENDED_MEASUREMENTS",
    "Calibration",
    "CalibrationOptions",
    "FittedRates",
    "HeldOutPrediction",
    "NetworkMeasurement",
    "ServingCalibration",
    "ServingCalibrationOptions",
    "calibrate",
    "calibrate_serving",
    "fit_calibration",
    "network_measurement",
    "networks",
]
