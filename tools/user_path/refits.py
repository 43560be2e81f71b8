"""Estimates by calibrations that were fitted again without the family of a network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fitting import aihub, ncnn, tiny
from fitting.fits import board_interval, from_others, ncnn_pools
from fitting.intervals import Pool
from fitting.measured import no_faster
from fitting.named import aihub_pools, esp_dl_pool
from fitting.networks import NETWORKS
from sizeup.latency import Estimate, PredictionInterval, Rates
from sizeup.latency.prediction import predict_calibrated
from user_path.image_tables import AIHUB, NCNN
from user_path.pairs import Pair

_NCNN_NAMES = {reference: name for name, reference in NCNN.items()}
_AIHUB_NAMES = {reference: name for name, reference in AIHUB.items()}
_PHONES = {chip: phone for phone, chip in aihub.CHIPS.items()}
Interval = tuple[float, float, float]  # seconds, low and high


class Refits:
    """Calibrations of ncnn, Qualcomm AI Hub, ESP-DL and MLPerf Tiny without a family of networks."""

    def __init__(self, truth: Path, models: Path) -> None:
        self.truth, self.models = truth, models

    def estimate(self, pair: Pair, estimate: Estimate) -> Interval | None:
        """The estimate of a network without its family; None if its calibration is not fitted again here."""
        if estimate.basis != "calibrated":
            return None
        if pair.source == "ncnn_bench":
            family = ncnn.family(_NCNN_NAMES[pair.network.reference])
            return self._pooled(pair.target.name, family, ncnn_pools(self.truth), estimate)
        if pair.source == "aihub":
            name = _AIHUB_NAMES[pair.network.reference]
            family = NETWORKS[name].family if name in NETWORKS else name
            device, _, runtime = pair.target.name.partition("/")
            target = f"{_PHONES.get(device, device)}/{runtime}"
            return self._pooled(target, family, aihub_pools(self.truth), estimate)
        if pair.source == "espdl":
            return self._pooled(
                pair.target.name, "mobilenet_v2", {"esp-dl": esp_dl_pool(self.truth)}, estimate
            )
        return self._of_boards(pair) if pair.source == "mlperf_tiny" else None

    def _pooled(
        self, target: str, family: str, pools: dict[str, Pool], estimate: Estimate
    ) -> Interval | None:
        pool = pools[target.partition("/")[2]]
        member = pool.member(target)
        assert member is not None
        if family not in member.rates:  # the calibration has not seen it
            low, high = estimate.low, estimate.high
            return None if low is None or high is None else (estimate.seconds, low, high)
        rates = aihub.with_fp32(no_faster(member.rates[family], member.samples.target))
        return _with(rates, pool.interval(member, family), estimate)

    def _of_boards(self, pair: Pair) -> Interval | None:
        """By the seconds per MAC of the other networks on the device."""
        for samples in tiny.measured(self.truth, self.models):
            files = [f"{tiny.file_of_benchmark(name)}.tflite" for name in samples.group.tolist()]
            if samples.target.name == pair.target.name and pair.network.reference in files:
                index = files.index(pair.network.reference)
                seconds = from_others(samples)[index : index + 1]
                interval = board_interval(self.truth, self.models, str(samples.group[index]))
                low, high = interval.bounds(seconds)
                return float(seconds[0]), float(low[0]), float(high[0])
        return None


def _with(rates: Rates, interval: PredictionInterval, estimate: Estimate) -> Interval | None:
    """The estimate at other rates and with another interval."""
    assert estimate.calibration is not None
    assert estimate.target is not None
    calibration = replace(estimate.calibration, rates=rates.to_dict(), interval=interval.to_dict())
    prediction = predict_calibrated(estimate.work, estimate.target, calibration)
    columns = np.array([prediction.seconds[0], prediction.low[0], prediction.high[0]])
    seconds, low, high = columns.tolist()
    return seconds, low, high
