"""A point composed from a base is the point that Hydra composes."""

import itertools
from functools import partial

import pytest
from benchkit.config import hydra_internals
from benchkit.config.compose import PointComposer, add_sizes_to_name, to_structured_config
from benchkit.errors import ConfigError
from hydra.errors import ConfigCompositionException, HydraException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf


def overrides_of(loader, lines):
    overrides = hydra_internals.parse(loader, lines)
    return hydra_internals.sort_overrides(overrides, partial(hydra_internals.sets_a_value, loader))


def compose(composer, loader, lines, number=0):
    return composer.point(hydra_internals.parse(loader, lines), number)


@pytest.mark.parametrize(
    "overrides",
    [
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
    composer.compose_with_hydra(overrides_of(loader, ["+suite=allreduce", "data_size=99"]))  # another point before it
    point = composer.compose_with_hydra(overrides_of(loader, overrides))
    assert OmegaConf.to_yaml(point) == OmegaConf.to_yaml(expected)
    assert OmegaConf.get_type(point) is OmegaConf.get_type(expected)
    own = composer.compose_point(overrides_of(loader, overrides))
    assert OmegaConf.get_type(own) is OmegaConf.get_type(expected)
    assert OmegaConf.to_container(own) == {
        name: value for name, value in OmegaConf.to_container(expected).items() if name != "hydra"
    }


def test_composer_keeps_points_independent(loader, master):
    composer = PointComposer(loader, master)
    compose(composer, loader, ["+suite=allreduce", "seed=7"])
    assert compose(composer, loader, ["+suite=allreduce", "data_size=2"], 1).config.seed == 0


@pytest.mark.parametrize("wrong", ["data_sizee=1", "timeout_s=abc", "backend=none_such"])
def test_composer_raises_hydra_error(loader, master, wrong):
    with pytest.raises(HydraException) as expected:
        loader.load_sweep_config(master, ["+suite=allreduce", wrong])
    with pytest.raises(type(expected.value)) as given:
        compose(PointComposer(loader, master), loader, ["+suite=allreduce", wrong])
    assert str(given.value) == str(expected.value)
    assert isinstance(given.value, ConfigCompositionException | HydraException)


AXES = (
    ("seed", st.integers(-1, 5)),
    ("data_size", st.sampled_from(["1", "0.5", "-2", "1KiB", "'1 MiB'", "ten", "[1]"])),
    ("dtype", st.sampled_from(["float16", "float32", "fp"])),
    ("world_size", st.sampled_from(["auto", "2", "0", "x"])),
    ("measure.max_seconds", st.sampled_from(["1", "1e-3", "null", "${seed}"])),
    ("measure.mode", st.sampled_from(["loop", "per_iteration"])),
    ("measure", st.sampled_from(["fixed", "quick"])),
    ("hardware", st.sampled_from(["cpu", "cuda"])),
    ("hardware.slowdown", st.sampled_from(["2", "[1,2]", "null"])),
    ("backend.env", st.sampled_from(["{A:b}", "{A:1}"])),
    ("on_end", st.sampled_from(["'a, b'", "x"])),
    ("model", st.sampled_from(["small", "tiny"])),
    ("model.d_ff", st.integers(0, 3)),
)
"""Keys and groups with values of which some are wrong; one may decide over another key."""


@st.composite
def drawn_sweeps(draw):
    """Up to four arguments of a sweep, each with one or two values."""
    axes = draw(st.lists(st.sampled_from(AXES), max_size=4, unique=True))
    return [f"{name}={','.join(map(str, draw(st.lists(values, min_size=1, max_size=2))))}" for name, values in axes]


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(suite=st.sampled_from(["allreduce", "transformer", "matmul_lut", "auto_shard"]), arguments=drawn_sweeps())
def test_points_of_sweep_are_those_composed_one_by_one(loader, master, suite, arguments):
    """Configurations and messages alike."""
    lines = [f"+suite={suite}", *arguments]
    composer, others = PointComposer(loader, master), PointComposer(loader, master)
    for number, overrides in enumerate(hydra_internals.expand_sweep(loader, lines)):
        parsed = overrides_of(loader, [str(override.input_line) for override in overrides])
        expected = outcome(partial(composed_alone, others, parsed))
        found = outcome(lambda overrides=overrides, number=number: composer.point(overrides, number).config)
        assert found == expected


def composed_alone(composer, parsed):
    base = composer._base(parsed.shape).without_hydra
    return add_sizes_to_name(to_structured_config(composer.compose_point(parsed)), parsed, base)


def outcome(compose):
    try:
        return compose()
    except (*hydra_internals.ERRORS, ConfigError, ValueError) as error:
        return type(error), str(error)


def test_most_points_are_variants(loader, master, monkeypatch):
    """Else a large sweep takes minutes to check."""
    composer = PointComposer(loader, master)
    composed = []
    monkeypatch.setattr(
        composer, "compose_point", lambda parsed: composed.append(1) or PointComposer.compose_point(composer, parsed)
    )
    arguments = ["+suite=allreduce", "data_size=1,2,4", "seed=range(5)", "measure.max_seconds=1,2", "backend=gloo,mpi"]
    points = [composer.point(overrides, 0) for overrides in hydra_internals.expand_sweep(loader, arguments)]
    assert (len(points), len(composed)) == (60, 2)
    assert {point.config.seed for point in points} == set(range(5))


def test_texts_from_the_environment_are_told(loader, master, monkeypatch):
    """Each point has its own, whether it is composed as a whole or is a variant of the one before."""
    monkeypatch.setenv("PLACE", "/secret")
    monkeypatch.setenv("NUMBER", "7")
    composer = PointComposer(loader, master)
    ends, seeds, others = (
        ("x", "${oc.env:PLACE}", "y", "a ${backend.env.A}", "z"),
        ("3", "${oc.env:NUMBER}"),
        ("b", "c"),
    )
    for end, seed, other in itertools.product(ends, seeds, others):
        lines = [f"on_end='{end}'", f"seed={seed}", f"+backend.env.B={other}", "+backend.env.A='${ oc.env:PLACE}'"]
        point = compose(composer, loader, ["+suite=allreduce", *lines])
        asked = {"backend.env.A": "${ oc.env:PLACE}"} | ({"on_end": end} if "$" in end else {})
        assert point.interpolations == asked
        assert point.config.backend.env == {"A": "/secret", "B": other}
        assert point.config.on_end.rpartition(" ")[2] == ("/secret" if "$" in end else end)
        assert point.config.seed == (7 if "$" in seed else 3)


def test_overridden_model_is_renamed(loader, master):
    composer = PointComposer(loader, master)

    def name(*lines):
        return compose(composer, loader, ["+suite=transformer", "model=tiny", *lines]).config.model.name

    assert name() == "tiny"
    assert [name(f"model.d_ff={size}") for size in (64, 32)] == ["tiny d_ff=64", "tiny d_ff=32"]
    assert name("model.num_layers=1", "model.d_ff=32") == "tiny d_ff=32 num_layers=1"
    assert name("model.name=mine", "model.d_ff=32") == "mine"
    assert name("model.num_layers=2", "model.d_ff=32") == "tiny d_ff=32"  # tiny has two layers
    assert name("model.num_layers=2") == "tiny"


def test_sizes_of_a_model_follow_the_dtype(loader, master):
    composer = PointComposer(loader, master)
    shape = ["+suite=collective", "model=small", "data_size=tensor:64"]
    sizes = [compose(composer, loader, [*shape, f"dtype={dtype}"]).config.data_size for dtype in ("float32", "float16")]
    assert sizes == [64 * 768 * 4 / 2**20, 64 * 768 * 2 / 2**20]
