"""The columns that all cases of a record share: what was measured, how, and where it comes from."""

from collections.abc import Mapping
from typing import Any

from analysis.records.conditions import conditions, provenance
from analysis.records.figures import DETAILS, NAMES
from benchkit.record.record import Record

SHARED_KEYS = frozenset((
    "suite", "seed", "world_size", "threads_per_rank", "start_method", "timeout_s",
    "join_timeout_s", "trust_network", "host_wait_s", "repeat", "max_failures", "on_end",
    "private_network",
    "ranks", "backend", "hardware", "measure", "model", "profile", "explain", "report",
))  # fmt: skip
"""Keys that every suite has. A suite's own lists and dictionaries are no columns either: they
choose cases, which are told apart by their labels."""
OUTCOMES = ("status", "reason", "failed_rank", "stopped_by", "converged", DETAILS)
"""Columns that say how a case went."""
OF_FILE = ("path", "run")


class Columns:
    """The shared columns of a record, and the names that no column of its suite may have.

    Attributes:
        settings: what was measured: the suite, where it ran, the suite's own keys, and how it was
            measured, as far as that affects the result.
        provenance: where it comes from, but for its file and its run.
    """

    def __init__(self, record: Record) -> None:
        shared, held = shared_settings(record), conditions(record)
        self.provenance = provenance(record)
        self._suite = record.suite
        self._taken = {*shared, *held, *self.provenance, *OF_FILE, *OUTCOMES, *NAMES}
        own = {
            name: value
            for name, value in record.config.items()
            if name not in SHARED_KEYS and not isinstance(value, list | dict)
        }
        self.settings: dict[str, Any] = shared | self.renamed(own) | held

    def renamed(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return a suite's keys, or a case's labels, as columns.

        One with the name of a column that every table has gets the suite's name as prefix.
        """
        return {
            f"{self._suite}.{name}" if name in self._taken else name: value
            for name, value in own.items()
        }


def shared_settings(record: Record) -> dict[str, Any]:
    """Return the settings that every suite has."""
    shared = record.settings
    return {
        "suite": record.suite,
        "backend": shared.backend.name,
        "device": shared.hardware.device,
        "world_size": record.world_size,
        "model": shared.model.name if shared.model else None,
    }
