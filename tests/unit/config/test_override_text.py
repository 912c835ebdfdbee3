"""Python values come out of Hydra and OmegaConf as they went in."""

from pathlib import Path

import numpy as np
import pytest
from benchkit.config import hydra_internals
from benchkit.config.command_line import override
from benchkit.config.compose import PointComposer
from benchkit.errors import ConfigError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

AWKWARD = st.text(st.sampled_from("\\'\"${}[](),=:~!@# \t\nab0.1e-é"))
TEXTS = st.one_of(st.text(st.characters(exclude_categories=["Cs"])), AWKWARD)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS)
QUICKLY = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def swept(loader, key, value):
    """The values that Hydra reads from an override."""
    [parsed] = hydra_internals.parse(loader, [override(key, value)])
    return [each.value() for each in hydra_internals.values_of(parsed)]


@QUICKLY
@given(st.lists(SCALARS.filter(lambda value: not isinstance(value, str) or "${" not in value), min_size=1))
def test_hydra_reads_values_as_they_are(loader, values):
    found = swept(loader, "data_size", values)
    assert found == values
    assert list(map(type, found)) == list(map(type, values))


@settings(QUICKLY, max_examples=8)
@given(TEXTS)
@example("${world_size}")
@example("\\${world_size}")
@example("\\\\${a}\\")
@example("${")
@example("a'${x}\\'")
def test_text_reaches_configuration_as_it_is(loader, master, text):
    line = override("on_end", text)
    composer = PointComposer(loader, master)
    parsed = hydra_internals.parse(loader, ["+suite=allreduce", line])
    assert composer.point(parsed, 0).config.on_end == text


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ((1, 10), "key=[1,10]"),
        ([(1, 2), (4,)], "key=[1,2],[4]"),
        (range(3), "key=0,1,2"),
        (np.array([1.5, 2]), "key=1.5,2.0"),
        (["fp16", "10MB", "8-1G", "10m"], "key=fp16,10MB,8-1G,10m"),
        (["1", "1e3", "null", ""], "key='1','1e3','null',''"),
        (Path("a b"), "key='a b'"),
        ({"a": 1, "b": (2, "c d")}, "key={a:1,b:[2,'c d']}"),
        (((1,), ()), "key=[[1],[]]"),
    ],
)
def test_values_are_written_as_a_user_types_them(value, line):
    assert override("key", value) == line


def test_keys_are_names():
    for key in ("data_size", "+a.b", "++a.b", "hydra/launcher", "backend.env.A", "a@b.c"):
        assert override(key, 1) == f"{key}=1"


def test_other_values_and_keys_are_refused(golden):
    told = []
    for key, value in [("x", []), ("x", {1}), ("x", [{"a b": 1}]), ("x", b"1"), ("a=b", 1), ("--force", 1), ("", 1)]:
        with pytest.raises(ConfigError) as refused:
            override(key, value)
        told.append(str(refused.value))
    golden("\n".join(told))
