"""What the files say of real hardware, against numbers that were entered or computed by hand."""

from __future__ import annotations

import pytest

from sizeup import targets

KIB, MIB, GIB = 1024, 1024**2, 1024**3

# RAM in all, its largest bank without a gap, flash; from the makers' product tables.
MEMORIES = {
    "stm32f401": (96 * KIB, 96 * KIB, 512 * KIB),
    "stm32f407": (192 * KIB, 128 * KIB, 1 * MIB),
    "stm32f429": (256 * KIB, 192 * KIB, 2 * MIB),
    "stm32f446": (128 * KIB, 128 * KIB, 512 * KIB),
    "stm32f746": (320 * KIB, 320 * KIB, 1 * MIB),
    "stm32f769": (512 * KIB, 512 * KIB, 2 * MIB),
    "stm32h743": ((512 + 288 + 128 + 64) * KIB, 512 * KIB, 2 * MIB),
    "stm32h747": ((512 + 288 + 128 + 64) * KIB, 512 * KIB, 2 * MIB),
    "stm32h7a3": ((1024 + 128 + 128 + 32) * KIB, 1024 * KIB, 2 * MIB),
    "stm32g0b1": (144 * KIB, 144 * KIB, 512 * KIB),
    "stm32l4r5": (640 * KIB, 640 * KIB, 2 * MIB),
    "stm32u575": (784 * KIB, 768 * KIB, 2 * MIB),
    "stm32u385": (256 * KIB, 256 * KIB, 1 * MIB),
    "stm32u3c5": (640 * KIB, 640 * KIB, 2 * MIB),
    "stm32n657": ((624 + 400 + 1024 + 4 * 448 + 256 + 128) * KIB, 4224 * KIB, None),
    "nrf52832": (64 * KIB, 64 * KIB, 512 * KIB),
    "nrf52840": (256 * KIB, 256 * KIB, 1 * MIB),
    "nrf5340": (512 * KIB, 512 * KIB, 1 * MIB),
    "nrf54l15": (256 * KIB, 256 * KIB, 1524 * KIB),
    "esp32-s3": (512 * KIB, 512 * KIB, None),
    "esp32-c3": (400 * KIB, 400 * KIB, None),
    "rp2040": (264 * KIB, 264 * KIB, None),
    "rp2350": (520 * KIB, 520 * KIB, None),
    "apollo3-blue": (384 * KIB, 384 * KIB, 1 * MIB),
    "imxrt1062": (1024 * KIB, 512 * KIB, None),
    "ra8d1": ((896 + 64) * KIB, 896 * KIB, (8 * 8 + 61 * 32) * KIB),
    "efr32mg24": (256 * KIB, 256 * KIB, 1536 * KIB),
    "rtx-4090": (24 * GIB, 24 * GIB, None),
    "h100-sxm": (80 * GIB, 80 * GIB, None),
}


@pytest.mark.parametrize("name", MEMORIES)
def test_memories_are_those_of_the_product_tables(name: str) -> None:
    device = targets.device(name)
    assert (device.ram_bytes, device.largest_ram_bytes, device.flash_bytes) == MEMORIES[name]


def test_all_memory_of_the_h7_adds_up_to_the_megabyte_of_its_datasheet() -> None:
    sizes = {memory.name: memory.bytes for memory in targets.device("stm32h743").memories}
    # 1060 Kbytes in the datasheet: 864 of SRAM, 192 of TCM, 4 of backup SRAM, which is not used for tensors.
    assert sum(sizes[name] or 0 for name in ("AXI SRAM", "SRAM1 to SRAM3", "SRAM4")) == 864 * KIB
    assert sum(sizes[name] or 0 for name in ("ITCM", "DTCM")) == 192 * KIB


# Multiprocessors (or compute units, or cores) x MACs per cycle of one x clock in GHz, by hand:
# fp32 lanes, and tensor cores from the architecture's whitepaper.
PEAKS = [
    ("gtx-1080-ti", "fp32", 28 * 128 * 1.582),
    ("gtx-1650-ti", "fp32", 16 * 64 * 1.485),
    ("titan-xp", "fp32", 30 * 128 * 1.582),
    ("titan-rtx", "fp16", 72 * 8 * 64 * 1.770),
    ("rtx-2080-ti", "fp32", 68 * 64 * 1.545),
    ("rtx-2080-ti", "fp16", 68 * 8 * 64 / 2 * 1.545),
    ("rtx-3060", "fp32", 28 * 128 * 1.777),
    ("rtx-3090", "fp32", 82 * 128 * 1.695),
    ("rtx-3090", "fp16", 82 * 4 * 128 / 2 * 1.695),
    ("rtx-3090", "int8", 82 * 4 * 256 * 1.695),
    ("rtx-4090", "fp32", 128 * 128 * 2.520),
    ("rtx-4090", "fp16", 128 * 4 * 128 / 2 * 2.520),
    ("rtx-4090", "int8", 128 * 4 * 256 * 2.520),
    ("rtx-5090", "fp32", 170 * 128 * 2.407),
    ("rtx-5090", "fp16_acc16", 170 * 4 * 128 * 2.407),
    ("rtx-pro-6000-max-q", "fp32", 188 * 128 * 2.280),
    ("p4", "int8", 20 * 128 * 4 * 1.063),
    ("p100-pcie", "fp16", 56 * 128 * 1.303),
    ("v100-sxm2", "fp16", 80 * 8 * 64 * 1.530),
    ("v100-pcie", "fp32", 80 * 64 * 1.370),
    ("t4", "fp16", 40 * 8 * 64 * 1.590),
    ("a10", "fp16", 72 * 4 * 128 * 1.695),
    ("a40", "tf32", 84 * 4 * 64 * 1.740),
    ("a100-80gb-sxm", "fp32", 108 * 64 * 1.410),
    ("a100-80gb-sxm", "fp16", 108 * 4 * 256 * 1.410),
    ("a100-40gb-pcie", "int8", 108 * 4 * 512 * 1.410),
    ("l4", "int8", 58 * 4 * 256 * 2.040),
    ("l40s", "fp32", 142 * 128 * 2.520),
    ("h100-sxm", "fp32", 132 * 128 * 1.980),
    ("h100-sxm", "fp16", 132 * 4 * 512 * 1.830),
    ("h100-pcie", "fp16", 114 * 4 * 512 * 1.620),
    ("mi100", "fp16", 120 * 512 * 1.502),
    ("mi210", "fp32", 104 * 128 * 1.700),
    ("mi250x", "fp16", 220 * 512 * 1.700),
    ("mi300x", "fp16", 304 * 1024 * 2.100),
    ("jetson-agx-orin", "int8", 85_000 / 2),  # 170 sparse TOPS of the GPU
    ("jetson-orin-nano", "int8", 20_000 / 2),  # 40 sparse TOPS
    ("jetson-nano", "fp16", 472 / 2),  # GFLOPS of the product page
    ("jetson-tx2", "fp16", 1330 / 2),
    ("i9-10940x", "fp32", 14 * 2 * 16 * 4.8),
    ("i9-10940x", "int8", 14 * 2 * 64 * 4.8),
    ("xeon-silver-4114", "fp32", 10 * 16 * 3.0),
    ("xeon-gold-6240", "fp32", 18 * 2 * 16 * 3.9),
    ("xeon-platinum-8480+", "bf16", 56 * 16 * 16 * 32 / 16 * 3.8),
    ("epyc-7742", "fp32", 64 * 2 * 8 * 3.4),
    ("ryzen-9-5950x", "fp32", 16 * 2 * 8 * 4.9),
    ("i7-12700h", "fp32", 6 * 2 * 8 * 4.7 + 8 * 2 * 4 * 3.5),
    ("rpi4", "fp32", 4 * 4 * 1.8),
    ("rpi5", "int8", 4 * 2 * 16 * 2.4),
    ("stm32f746", "int8", 2 * 0.216),
    ("nrf52840", "fp32", 0.5 * 0.064),
    ("ethos-u55-128", "int8", 128 * 0.5),
    ("stm32n657", "int8", 300),
    ("hailo-8", "int8", 13_000),
]


@pytest.mark.parametrize(("name", "dtype", "billions"), PEAKS)
def test_peaks_follow_from_units_and_clock(name: str, dtype: str, billions: float) -> None:
    peak = targets.device(name).peak(dtype)
    # Makers round, and some state the rate at a clock slightly below the boost clock.
    assert peak == pytest.approx(billions * 1e9, rel=0.025)


# Bus width in bits x rate of a pin in Gbit/s.
BANDWIDTHS = {
    "gtx-1080-ti": 352 * 11.0,
    "rtx-2080-ti": 352 * 14.0,
    "rtx-3090": 384 * 19.5,
    "rtx-4090": 384 * 21.0,
    "rtx-5090": 512 * 28.0,
    "t4": 256 * 10.0,
    "a10": 384 * 12.5,
    "a40": 384 * 14.5,
    "l4": 192 * 12.5,
    "l40s": 384 * 18.0,
    "a100-40gb-sxm": 5120 * 2.43,
    "mi300x": 8192 * 5.2,
    "rpi4": 32 * 3.2,
    "rpi5": 32 * 4.267,
    "xeon-gold-6240": 6 * 64 * 2.933,
    "epyc-9654": 12 * 64 * 4.8,
    "apple-m1": 128 * 4.266,
    "jetson-agx-orin": 256 * 6.4,
}


@pytest.mark.parametrize("name", BANDWIDTHS)
def test_bandwidths_follow_from_the_bus(name: str) -> None:
    assert targets.device(name).bandwidth == pytest.approx(BANDWIDTHS[name] / 8 * 1e9, rel=0.01)


def test_the_ops_byte_ratio_is_peak_flops_over_bandwidth() -> None:
    # 312 TFLOPS are 156e12 MACs per second, over 2039 GB/s.
    assert targets.device("a100-80gb-sxm").flops_per_byte("fp16") == pytest.approx(312e12 / 2039e9)
    assert targets.device("stm32f746").flops_per_byte("int8") is None


def test_there_are_devices_of_every_kind() -> None:
    devices = targets.devices()
    counts = {kind: sum(device.device_class == kind for device in devices) for kind in targets.DEVICE_CLASSES}
    assert sum(counts.values()) == len(devices) >= 60
    assert min(counts.values()) >= 5
    assert counts["microcontroller"] >= 40
    assert counts["gpu"] >= 40
