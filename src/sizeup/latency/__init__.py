"""How long it takes: work as columns, and estimators that say how far they may be off."""

from sizeup.latency.coefficients import layer_times, read_table, table_from
from sizeup.latency.estimate import BASES, Estimate, estimate
from sizeup.latency.executed import Executed, executed, typed
from sizeup.latency.fit import Form, fit
from sizeup.latency.hardware import (
    Hardware,
    Limited,
    Measurement,
    Spent,
    Utilization,
    energy,
    energy_by_op,
    flops_per_byte,
    hardware,
    hardware_of,
    limited,
    measurement,
    parse_measurement,
    utilization,
)
from sizeup.latency.interval import Band, band, drift, held_out, unseen_share, unseen_spread
from sizeup.latency.model import Kernels, Rate, Rates, kernels, rates_from, seconds
from sizeup.latency.roofline import by_data_sheet, type_of
from sizeup.latency.timed import Basis
from sizeup.latency.work import CLASSES, Work, class_of, from_columns, stack, work_of

__all__ = [
    "BASES",
    "CLASSES",
    "Band",
    "Basis",
    "Estimate",
    "Executed",
    "Form",
    "Hardware",
    "Kernels",
    "Limited",
    "Measurement",
    "Rate",
    "Rates",
    "Spent",
    "Utilization",
    "Work",
    "band",
    "by_data_sheet",
    "class_of",
    "drift",
    "energy",
    "energy_by_op",
    "estimate",
    "executed",
    "fit",
    "flops_per_byte",
    "from_columns",
    "hardware",
    "hardware_of",
    "held_out",
    "kernels",
    "layer_times",
    "limited",
    "measurement",
    "parse_measurement",
    "rates_from",
    "read_table",
    "seconds",
    "stack",
    "table_from",
    "type_of",
    "typed",
    "unseen_share",
    "unseen_spread",
    "utilization",
    "work_of",
]
