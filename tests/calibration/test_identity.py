"""Compare a machine with the device that the user names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sizeup import targets
from sizeup.calibration.host import Host, is_device

PI_5, PI_4, PI_400 = (f"Raspberry Pi {name} Rev 1.0" for name in ("5 Model B", "4 Model B", "400"))


def machine(title: str, architecture: str, board: str = "") -> Host:
    maker = next((each for each in ("Intel", "AMD", "Apple") if each in title), "unknown")
    return Host(title, maker, 4, None, None, architecture, board)


@pytest.mark.parametrize(
    ("here", "device", "answer"),
    [
        (machine("Intel Xeon Processor", "x86_64"), "rpi5", False),
        (machine("Intel Xeon Processor", "x86_64"), "apple-m2", False),
        (machine("Intel Xeon Processor", "x86_64"), "stm32f746", False),
        (machine("Intel Xeon Processor", "x86_64"), "rtx4090", False),
        (machine("Intel Xeon Processor", "x86_64"), "ryzen-9-5950x", False),
        (machine("Intel Xeon Processor", "x86_64"), "xeon-platinum-8380", None),
        (machine("Intel Xeon Platinum 8380 CPU @ 2.30GHz", "x86_64"), "xeon-platinum-8380", True),
        (machine("Intel Xeon Platinum 8280 CPU @ 2.70GHz", "x86_64"), "xeon-platinum-8380", False),
        (machine("12th Gen Intel Core i7-12700H", "AMD64"), "i7-12700h", True),
        (machine("Intel Core i5-8250U CPU @ 1.60GHz", "x86_64"), "i7-12700h", False),
        (machine("AMD Ryzen 9 5950X 16-Core Processor", "x86_64"), "ryzen-9-5950x", True),
        (machine("aarch64", "aarch64", PI_5), "rpi5", True),
        (machine("aarch64", "aarch64", PI_4), "rpi5", False),
        (machine("aarch64", "aarch64", PI_400), "rpi4", None),
        (machine("aarch64", "aarch64"), "rpi5", None),
        (machine("aarch64", "aarch64"), "i7-12700h", False),
        (machine("aarch64", "aarch64"), "stm32f746", False),
        (machine("Apple M1 Pro", "arm64"), "apple-m1-pro", True),
        (machine("Apple M1 Pro", "arm64"), "apple-m1", False),
    ],
)
def test_names_kinds_and_architectures_decide(here: Host, device: str, answer: bool | None) -> None:
    assert is_device(here, targets.device(device), targets.devices()) is answer


@pytest.mark.parametrize("title", ["Intel Xeon Processor", "Intel Core i7-12700H"])
def test_a_computer_has_another_name_and_maker_than_its_processor(title: str) -> None:
    processor = targets.device("i7-12700h")
    laptop = replace(
        processor, name="laptop", title="Acme X1000", device_class="computer", vendor="Acme", aliases=()
    )
    assert is_device(machine(title, "x86_64"), laptop, targets.devices()) is None


def test_what_calibrate_describes_is_this_machine() -> None:
    here = machine("Intel Xeon Processor", "x86_64")
    described = replace(targets.device("rpi5"), name="mine", title="mine (Intel Xeon Processor)")
    assert is_device(here, described, targets.devices()) is True
