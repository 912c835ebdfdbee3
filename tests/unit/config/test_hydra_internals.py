"""What benchkit relies on in Hydra without Hydra documenting it; what Hydra says, tests/cli/test_cli.py provokes."""

from functools import partial

import pytest
from benchkit.config import hydra_internals
from benchkit.config.compose import PointComposer
from benchkit.errors import ConfigError
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException

from tests.support.cli import ROOT


def test_product_uses_last_value_of_key(loader):
    arguments = ["+suite=allreduce", "seed=1,2", "backend=gloo,nccl", "seed=choice(3)"]
    points = [[each.input_line for each in point] for point in hydra_internals.expand_sweep(loader, arguments)]
    assert points == [["+suite=allreduce", "seed=3", "backend=gloo"], ["+suite=allreduce", "seed=3", "backend=nccl"]]
    assert points == BasicSweeper.split_arguments(hydra_internals.parse(loader, arguments), None)[0]


@pytest.mark.parametrize(
    "argument",
    [
        "seed=range(1,10,3)", "data_size=range(0,1,0.25)", "on_end='a, b',\"c=d\",e\\,f",
        "data_size=choice(1,[2,3],{a:b},true,1e3,.5,'x')", "backend=glob(*)", "+backend.env.A=b,c",
        "++seed=1,2", "hardware@hardware=cpu,cuda", "data_size=1 KiB", "~backend",
    ],
)  # fmt: skip
def test_values_are_those_of_parsed_lines(loader, argument):
    """Each is what Hydra's own sweeper writes as a line, and then parses for its point."""
    for override in hydra_internals.values_of(*hydra_internals.parse(loader, [argument])):
        (again,) = hydra_internals.parse(loader, [override.input_line])
        assert (again.value(), again.value_type, again.type) == (override.value(), override.value_type, override.type)
        assert (again.key_or_group, again.package) == (override.key_or_group, override.package)


def test_interval_is_refused(loader):
    with pytest.raises(HydraException):
        list(hydra_internals.expand_sweep(loader, ["seed=interval(1,2)"]))


def test_parse_separates_overrides(loader):
    shape = ["+suite=allreduce", "++backend.env.A=b", "~model", "backend=nccl", "hydra/launcher@x=y", "hydra.verbose=1"]
    overrides = hydra_internals.parse(loader, [*shape, "seed=7"])
    parsed = hydra_internals.sort_overrides(overrides, partial(hydra_internals.sets_a_value, loader))
    assert [override.input_line for override in parsed.values] == ["seed=7"]
    assert list(parsed.shape) == shape
    assert parsed.lines() == [*shape[:4], "seed=7"]


def test_folder_resolves_hydra_node(loader, master):
    subdir = "hydra.sweep.subdir=${hydra:job.num}_${hydra.job.override_dirname}"
    before = HydraConfig.instance().cfg
    overrides = hydra_internals.parse(loader, ["+suite=allreduce", subdir, "seed=7"])
    folder = PointComposer(loader, master).point(overrides, 3).folder
    assert folder == "3_+suite=allreduce,seed=7"
    assert HydraConfig.instance().cfg is before


@pytest.mark.usefixtures("loader")
def test_key_below_null_group_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^model\.d_ff=1: "):
        hydra_internals.run(ROOT / "conf", ["+suite=allreduce", "model.d_ff=1,2"], hydra_internals.SweepTask())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("benchkit +suite=a -m dat", "benchkit +suite=a dat"),
        ("benchkit --multirun data_size=1,2 dty", "benchkit data_size=1 dty"),
        ("benchkit on_end='a,b' data_size=1,2", "benchkit on_end='a,b' data_size=1,2"),
        ("benchkit +suite=a --mul", "benchkit +suite=a "),
        ("benchkit --resume outputs/latest --dry-run dat", "benchkit dat"),
        ("benchkit --config-dir conf +suite=a dat", "benchkit --config-dir conf +suite=a dat"),
    ],
)
def test_completed_line_is_one_that_hydra_composes(line, expected):
    assert hydra_internals.simplify_for_completion(line) == expected
