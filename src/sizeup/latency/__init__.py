"""Latency prediction: kernels as columns, estimators over them, and prediction intervals."""

from sizeup.latency.coefficients import layer_times, read_table, table_from
from sizeup.latency.estimate import BASES, Estimate, estimate
from sizeup.latency.execution import Execution, class_with_dtype, execution_of
from sizeup.latency.hardware import (
    EnergyEstimate,
    LimiterShare,
    Measurement,
    Throughput,
    Utilization,
    energy,
    energy_by_op,
    flops_per_byte,
    measurement,
    parse_measurement,
    throughput,
    throughput_of,
    time_by_limiter,
    utilization,
)
from sizeup.latency.interval import (
    PredictionInterval,
    drift,
    held_out_estimates,
    prediction_interval,
    unseen_share,
    unseen_spread,
)
from sizeup.latency.model import Kernels, Rate, Rates, kernels, rates_from, seconds
from sizeup.latency.pipelined import PipelinedThroughput
from sizeup.latency.prediction import Basis
from sizeup.latency.regression import FitOptions, fit_rates
from sizeup.latency.roofline import dtype_of, roofline_kernels
from sizeup.latency.standing import standing_of, standings_of
from sizeup.latency.work import CLASSES, Work, class_of, from_columns, stack, work_of

__all__ = [
    "BASES",
    "CLASSES",
    "Basis",
    "EnergyEstimate",
    "Estimate",
    "Execution",
    "FitOptions",
    "Kernels",
    "LimiterShare",
    "Measurement",
    "PipelinedThroughput",
    "PredictionInterval",
    "Rate",
    "Rates",
    "Throughput",
    "Utilization",
    "Work",
    "class_of",
    "class_with_dtype",
    "drift",
    "dtype_of",
    "energy",
    "energy_by_op",
    "estimate",
    "execution_of",
    "fit_rates",
    "flops_per_byte",
    "from_columns",
    "held_out_estimates",
    "kernels",
    "layer_times",
    "measurement",
    "parse_measurement",
    "prediction_interval",
    "rates_from",
    "read_table",
    "roofline_kernels",
    "seconds",
    "stack",
    "standing_of",
    "standings_of",
    "table_from",
    "throughput",
    "throughput_of",
    "time_by_limiter",
    "unseen_share",
    "unseen_spread",
    "utilization",
    "work_of",
]
