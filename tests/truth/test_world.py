"""The planted world: what it leaves out, and that it leaves nothing behind."""

import ast
import itertools
import os
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from benchkit.errors import ConfigError
from benchkit.measure import clocks, timer
from benchkit.point import point as point_module
from benchkit.point.agent_group import AgentGroup
from benchkit.point.ranks import LocalRanks
from benchkit.rank import main, run_cases
from benchkit.rank.prober import Prober
from benchkit.rank.session import RankSession

from tests.support.planted import combinations, oracle, runs
from tests.support.planted.axes import AXES, EXCLUDED, covering, goes_with
from tests.support.planted.oracle import Plant
from tests.support.planted.world import planted_world


def examples_of(exclusion):
    """Combinations that an exclusion forbids, and nothing else: one for each choice of its values."""
    for values in itertools.product(*exclusion.values.values()):
        chosen = dict(zip(exclusion.values, values, strict=True))
        for axis, own in AXES.items():
            if axis not in chosen:
                chosen[axis] = next(value for value in own if not is_forbidden({**chosen, axis: value}, exclusion))
        yield chosen


def is_forbidden(chosen, without):
    return any(each.holds(chosen) for each in EXCLUDED if each is not without)


def name_of(exclusion):
    return "-".join(exclusion.values)


@pytest.mark.parametrize("exclusion", [each for each in EXCLUDED if not each.why], ids=name_of)
def test_check_refuses_what_the_array_leaves_out(exclusion):
    for chosen in examples_of(exclusion):
        settings = combinations.settings_of(chosen)
        with pytest.raises(ConfigError) as refusal:
            runs.checked([*settings.points[0], f"repeat={settings.repeat}"])
        assert "\n" not in str(refusal.value)


@pytest.mark.slow
@pytest.mark.parametrize("exclusion", [each for each in EXCLUDED if each.why.startswith("no case")], ids=name_of)
def test_nothing_is_timed_of_what_the_array_leaves_out(exclusion, measured):
    for chosen in examples_of(exclusion):
        settings = combinations.settings_of(chosen)
        [point, *_] = measured(settings.points, settings.plant).points
        assert {bool(case.reason) for case in point.record.cases} == {True}
        assert not any(case.samples_s for case in point.record.cases)


def cannot_be(pair):
    """Whether another axis has no value that goes with a pair."""
    return any(
        axis not in pair and not any(goes_with(pair, axis, value) for value in values) for axis, values in AXES.items()
    )


def test_array_has_every_pair_that_goes_together():
    rows = covering(2)
    for first, second in itertools.combinations(AXES, 2):
        there = {(row[first], row[second]) for row in rows}
        pairs = itertools.product(AXES[first], AXES[second])
        wanted = {(a, b) for a, b in pairs if goes_with({first: a}, second, b) and not cannot_be({first: a, second: b})}
        assert there == wanted, (first, second)


def test_oracle_shares_no_code_with_benchkit():
    tree = ast.parse(Path(oracle.__file__).read_text())
    froms = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name.split(".")[0] for name in froms | plain} <= sys.stdlib_module_names


def functions_there():
    """What the modules that a world patches hold, and what torch's group is."""
    owners = [dist, clocks, timer, main, run_cases, point_module, LocalRanks, AgentGroup, Prober, timer.Timer]
    return [{name: id(value) for name, value in vars(owner).items() if not name.startswith("_")} for owner in owners]


def test_world_leaves_nothing_behind(measured):
    before, environment = functions_there(), dict(os.environ)
    with planted_world():
        assert functions_there() != before
    measured([["+suite=smallest_matmul_lut", "hardware=cpu", "world_size=2", "measure=few"]], Plant())
    assert functions_there() == before
    assert dict(os.environ) == environment
    assert not dist.is_initialized()
    assert torch.is_grad_enabled()


def test_ranks_that_do_not_meet_are_an_error(measured, monkeypatch):
    monkeypatch.setattr(RankSession, "make_prober", lambda *_: dist.barrier() if dist.get_rank() else None)
    with pytest.raises(runs.Failed, match="ranks do not meet equally often"):
        measured([["+suite=smallest_matmul_lut", "hardware=cpu", "world_size=2", "measure=few"]], Plant())
