"""A point composed from a base is the point that Hydra composes."""

import pytest
from benchkit.config.point_composer import PointComposer
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf import OmegaConf


@pytest.mark.parametrize(
    "overrides",
    [
        ["+suite=allreduce"],
        ["+suite=allreduce", "data_size=3", "seed=7", "world_size=4"],
        ["data_size=0.5", "backend=nccl", "+suite=allreduce", "hardware=cuda", "measure.max_seconds=3"],
        ["+suite=allreduce", "model=small", "dtype=float16"],
        ["+suite=allreduce", "measure=fixed", "measure.target_rel_ci=0.5", "+backend.env.A=b"],
        ["sweep=gloo_cpu", "data_size=5", "timeout_s=1"],
    ],
)
def test_composer_matches_hydra(loader, master, overrides):
    expected = loader.load_sweep_config(master, overrides)
    expected.hydra.sweep.dir = master.hydra.sweep.dir  # all points share the sweep's, whenever they are composed
    composer = PointComposer(loader, master)
    composer.whole(["+suite=allreduce", "data_size=99"])  # another point before it
    point = composer.whole(overrides)
    assert OmegaConf.to_yaml(point) == OmegaConf.to_yaml(expected)
    assert OmegaConf.get_type(point) is OmegaConf.get_type(expected)
    own = composer.point(overrides, 0).config
    assert OmegaConf.get_type(own) is OmegaConf.get_type(expected)
    assert OmegaConf.to_container(own) == {
        name: value for name, value in OmegaConf.to_container(expected).items() if name != "hydra"
    }


def test_composer_keeps_points_independent(loader, master):
    composer = PointComposer(loader, master)
    composer.point(["+suite=allreduce", "seed=7"], 0)
    assert composer.point(["+suite=allreduce", "data_size=2"], 1).config.seed == 0


@pytest.mark.parametrize("wrong", ["data_sizee=1", "timeout_s=abc", "backend=none_such"])
def test_composer_raises_hydra_error(loader, master, wrong):
    with pytest.raises(HydraException) as expected:
        loader.load_sweep_config(master, ["+suite=allreduce", wrong])
    with pytest.raises(type(expected.value)) as given:
        PointComposer(loader, master).point(["+suite=allreduce", wrong], 0)
    assert str(given.value) == str(expected.value)
    assert isinstance(given.value, ConfigCompositionException | HydraException)
