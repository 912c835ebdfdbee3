"""Records of rank_speed as tables of ranks per test, with the rates of data sheets."""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import msgspec
import numpy as np
import yaml

from analysis.records.doubts import log_halves
from analysis.records.places import RankMapping, number_labels, places_of
from analysis.suites.pair_matrix.matrix import NODE, RANK, WHOLE
from benchkit.api.lut import entry_of
from benchkit.record.naming import format_bytes
from benchkit.record.record import Record
from benchkit.statistics.faults import PeerGroups, make_family
from benchkit.statistics.intervals import Array
from benchkit.suites.rank_speed.suite import (
    COPY,
    DTYPE,
    FLOPS,
    FROM_DEVICE,
    MATMUL,
    MOVED_BYTES,
    TEST,
    TO_DEVICE,
    TRIAD,
)

MEMORY, HOST = "memory", "host"  # rates of a DataSheet
OF_TEST = {COPY: MEMORY, TRIAD: MEMORY, TO_DEVICE: HOST, FROM_DEVICE: HOST}
ENOUGH = {MATMUL: 0.5, MEMORY: 0.7, HOST: 0.6}
"""Share of the data sheet rate below which a rank is reported. No program reaches all of it: clocks
fall under load, links and memories have overheads."""
SUITE = "rank_speed"
Peaks = Mapping[str, Mapping[str, float]]  # `hardware.peak_tflop_per_s`, by device and dtype


@dataclass(frozen=True)
class ExpectedRate:
    """A rate of the data sheet, in FLOP/s or bytes per second.

    Attributes:
        min_share: share of it that a healthy device reaches at least.
    """

    rate: float
    min_share: float
    source: str


class DataSheet(msgspec.Struct):
    """An entry of devices.yaml: rates of memory and of the link to the host, in GB/s."""

    memory: float
    host: float
    source: str


@functools.cache
def devices() -> dict[str, DataSheet]:
    text = files(__package__).joinpath("devices.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), dict[str, DataSheet])


def sheet_rate(test: str, dtype: str, device: str, peak_tflop_per_s: Peaks) -> ExpectedRate | None:
    """Return the data sheet rate of a device for a test; None if unknown."""
    if test == MATMUL:
        entry = entry_of(peak_tflop_per_s, device)
        peak = peak_tflop_per_s[entry].get(dtype) if entry else None
        return ExpectedRate(peak * 1e12, ENOUGH[MATMUL], f"data sheet of {entry}") if peak else None
    table = devices()
    entry = entry_of(table, device)
    if not entry or test not in OF_TEST:
        return None
    kind, sheet = OF_TEST[test], table[entry]
    return ExpectedRate(getattr(sheet, kind) * 1e9, ENOUGH[kind], sheet.source)


@dataclass(frozen=True)
class Speeds:
    """One test on all ranks.

    Attributes:
        dtype: dtype of a matrix product; "" for others.
        halves: logarithm of the median seconds of each rank, see `PairTimes`: [2][rank].
        amount: FLOP or bytes of a call.
        shows_amount: whether only the amount distinguishes it from another test.
    """

    test: str
    dtype: str
    halves: Array
    amount: float
    is_compute: bool
    places: Sequence[RankMapping]
    peak_tflop_per_s: Peaks
    shows_amount: bool = False

    @property
    def name(self) -> str:
        size = f"{1e-9 * self.amount:.4g} GFLOP" if self.is_compute else format_bytes(self.amount)
        amount = f"of {size}" if self.shows_amount else ""
        return " ".join(filter(None, (self.test.replace("_", " "), self.dtype, amount)))

    def peers(self) -> PeerGroups:
        """Return the ranks by device name, with the families of faults: a rank, or a node."""
        kinds = np.array(number_labels([place.device for place in self.places]))
        ranks = np.arange(len(self.places))
        node = np.array(number_labels([place.host for place in self.places]))
        families = [make_family(RANK, ranks)]
        if 1 < node.max() + 1 < len(ranks):
            families.append(make_family(f"{NODE} {WHOLE}", node))
        return PeerGroups(kinds, families)

    def rates(self) -> Array:
        """Return the FLOP/s or bytes/s of each rank: [rank]."""
        return np.asarray(self.amount / np.exp(self.halves.mean(axis=0)))

    def sheet_rates(self) -> list[ExpectedRate | None]:
        """Return the data sheet rate of each rank, None if unknown: [rank]."""
        return [
            sheet_rate(self.test, self.dtype, place.device, self.peak_tflop_per_s)
            for place in self.places
        ]


def speeds(records: Sequence[Record]) -> list[Speeds]:
    """Return the table of each test, from records of the same ranks in order of time.

    Records of other suites are skipped.
    """
    records = [record for record in records if record.suite == SUITE]
    runs: dict[tuple[str, str, float, bool], list[list[list[float]]]] = {}
    for record in records:
        for case in record.cases:
            amount = case.details.get(FLOPS) or case.details.get(MOVED_BYTES)
            if case.samples_s and amount:
                label = str(case.labels[TEST]), str(case.labels.get(DTYPE) or "")
                key = *label, float(amount), FLOPS in case.details
                runs.setdefault(key, []).append(case.samples_s)
    if not records:
        return []
    places, peaks = places_of(records[-1]), peaks_of(records[-1])
    amounts = Counter((test, dtype) for test, dtype, *_ in runs)
    return [
        Speeds(
            test, dtype, halves_of(samples), amount, is_compute, places, peaks,
            shows_amount=amounts[test, dtype] > 1,
        )
        for (test, dtype, amount, is_compute), samples in runs.items()
    ]  # fmt: skip


def peaks_of(record: Record) -> Peaks:
    """Return the table of peak rates in the record; {} without one."""
    hardware = record.config.get("hardware")
    table = hardware.get("peak_tflop_per_s") if isinstance(hardware, dict) else None
    return table if isinstance(table, dict) else {}


def halves_of(runs: Sequence[Sequence[Sequence[float]]]) -> Array:
    """Return the halves of each rank, [2][rank], from seconds [run][rank][iteration]."""
    by_rank = zip(*runs, strict=True)
    halves = [log_halves(list(of_rank)) for of_rank in by_rank]
    return np.asarray(np.array(halves).T.reshape(2, -1))
