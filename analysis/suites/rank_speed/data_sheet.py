"""What the data sheet of a device promises for each test, and which share of it is enough."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from benchkit.api.data_sheet import entry_of
from benchkit.suites.rank_speed.names import COPY, FROM_DEVICE, MATMUL, TO_DEVICE, TRIAD

MEMORY, HOST, SOURCE = "memory", "host", "source"
"""Keys of an entry of devices.yaml."""
OF_TEST = {COPY: MEMORY, TRIAD: MEMORY, TO_DEVICE: HOST, FROM_DEVICE: HOST}
ENOUGH = {MATMUL: 0.5, MEMORY: 0.7, HOST: 0.6}
"""Share of the data sheet below which a rank is out of line. No program reaches all of it: clocks
fall under load, links and memories have overheads."""


@dataclass(frozen=True)
class Promise:
    """A rate of the data sheet.

    Attributes:
        rate: in FLOP/s or bytes per second.
        enough: share of it that a healthy device reaches.
        source: where it is from.
    """

    rate: float
    enough: float
    source: str


@functools.cache
def devices() -> Mapping[str, Mapping[str, Any]]:
    """Return the table of devices."""
    text = files(__package__).joinpath("devices.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load(text)
    return found


def promise(
    test: str, dtype: str, device: str, peak_tflop_per_s: Mapping[str, Mapping[str, float]]
) -> Promise | None:
    """Return what the data sheet of a device promises for a test; None where it is not known.

    Args:
        test: label of the case.
        dtype: of a matrix product.
        device: name of the device.
        peak_tflop_per_s: `hardware.peak_tflop_per_s` of the record.
    """
    if test == MATMUL:
        entry = entry_of(peak_tflop_per_s, device)
        peak = peak_tflop_per_s[entry].get(dtype) if entry else None
        return Promise(peak * 1e12, ENOUGH[MATMUL], f"data sheet of {entry}") if peak else None
    table = devices()
    entry = entry_of(table, device)
    if not entry or test not in OF_TEST:
        return None
    column = OF_TEST[test]
    return Promise(table[entry][column] * 1e9, ENOUGH[column], str(table[entry][SOURCE]))
