"""Warns of first calls that were not first in their process."""

from collections.abc import Sequence
from dataclasses import fields

from benchkit.api.groups import COLD
from benchkit.api.schema import RunConfig
from benchkit.record.case import CaseRecord


def of_several_cases(config: RunConfig, reports: Sequence[CaseRecord]) -> list[str]:
    """Returns a warning where several cases shared the processes whose first calls were timed."""
    number = sum(bool(report.samples_s) for report in reports)
    if config.measure.mode != COLD or number < 2:
        return []
    return [
        f"{number} cases took turns in the same processes, in random order: only one of them was "
        "first, the others found libraries and kernels loaded; for one case per point: "
        f"{' '.join(sweeps_of(config)) or 'choose one by the keys of the suite'}"
    ]


def sweeps_of(config: RunConfig) -> list[str]:
    """Returns the overrides that make points of the keys whose lists select cases."""
    chosen = {each.name: getattr(config, each.name) for each in fields(config)}
    return [
        f"{name}={','.join(f'[{value}]' for value in values)}"
        for name, values in chosen.items()
        if isinstance(values, list) and len(values) > 1
    ]
