"""Every YAML under conf/: composes, is typed, says how to run it, and explains each key."""

import dataclasses
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import cycle

import pytest
import yaml
from benchkit.api.keys import RunConfig, as_dict, described_keys, nested_schema
from benchkit.api.registry import load_suites
from benchkit.config import compose as composition
from benchkit.config import compose as resolvers
from benchkit.config.identity import point_id
from benchkit.environment import VisibleGpus
from hydra import compose, initialize_config_dir
from omegaconf import MISSING, DictConfig

from tests.support.cli import ROOT
from tests.support.configs import own_suites

CONF = ROOT / "conf"
FILES = sorted(CONF.rglob("*.yaml"))
GROUPS = ("backend", "hardware", "measure", "model")
OF_MODEL = {
    "collective": ["data_size=gradients"],
    "tp_rowwise": ["layer=ffn_up"],
    "tp_columnwise": ["layer=ffn_up", "world_size=2"],
}
"""What suites are told of a model, by suite."""


@pytest.fixture(autouse=True, scope="module")
def _schemas():
    composition.register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        yield


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def choices() -> Iterator[tuple[str, dict[str, str]]]:
    """Each suite twice, with options of all groups, so that each option has its turn."""
    turns = {group: cycle(options(group)) for group in GROUPS}
    for suite in own_suites() * 2:
        groups = GROUPS if load_suites()[suite].config.uses_model else GROUPS[:-1]
        yield suite, {group: next(turns[group]) for group in groups}


CHOICES = list(choices())


def composed(*words: str) -> RunConfig:
    return composition.to_structured_config(compose("config", list(words)))


@pytest.mark.parametrize(("suite", "chosen"), CHOICES, ids=str)
def test_suite_composes_with_options_and_keeps_chosen_values(suite, chosen):
    """Hydra merges +suite last; a value in a schema would silently win."""
    words = [f"{group}={option}" for group, option in chosen.items()]
    words += OF_MODEL.get(suite, []) if "model" in chosen else []
    config = composed(f"+suite={suite}", *words, "seed=7", "measure.max_iterations=33")
    assert type(config) is load_suites()[suite].config  # the suite's schema typed the root
    assert (config.suite, config.seed, config.measure.max_iterations) == (suite, 7, 33)
    assert config.backend.name == chosen["backend"]
    assert not config.model or config.model.name == chosen["model"]


def test_every_option_has_its_turn():
    for group in GROUPS:
        assert {chosen[group] for _, chosen in CHOICES if group in chosen} == set(options(group))


@pytest.mark.parametrize(
    ("gpus", "given", "expected"),
    [
        ([], [], ("cpu", "gloo")),
        ([], ["backend=nccl"], ("cpu", "nccl")),
        ([], ["hardware=cuda"], ("cuda", "nccl")),
        (["GPU-a"], [], ("cuda", "nccl")),
        (["GPU-a"], ["backend=gloo"], ("cuda", "gloo")),
        (["GPU-a"], ["hardware=cpu"], ("cpu", "gloo")),
        (["GPU-a"], ["hardware=cuda_shared"], ("cuda", "gloo")),
        (["GPU-a"], ["hardware=slow_peer"], ("cpu", "gloo")),
    ],
)
def test_hardware_and_backend_follow_gpus(monkeypatch, gpus, given, expected):
    monkeypatch.setattr(resolvers, "visible_gpus", lambda: VisibleGpus(gpus))
    found = compose("config", ["+suite=allreduce", *given])
    config = composition.to_structured_config(found)
    assert (config.hardware.device, config.backend.name) == expected
    if not given:
        typed = [f"hardware={expected[0]}", f"backend={expected[1]}"]
        assert found == compose("config", ["+suite=allreduce", *typed])


@pytest.mark.parametrize("stored", json.loads((ROOT / "tests" / "golden" / "identities.json").read_text()))
def test_stored_overrides_compose_to_identity(stored):
    assert point_id(as_dict(composed(*stored["overrides"])), 2) == stored["point_id"]


@pytest.mark.parametrize("name", options("smoke"))
def test_smoke_is_one_point_on_gpu(name):
    assert composed(f"+smoke={name}").hardware.device == "cuda"
    assert not compose("config", [f"+smoke={name}"], return_hydra_config=True).hydra.sweeper.params


@cache
def sweep(name: str) -> DictConfig:
    return compose("config", [f"sweep={name}"], return_hydra_config=True)


def first_values(name: str) -> dict[str, str]:
    """By key of a sweep, the word that sets it to its first value."""
    found = {}
    for key, values in (sweep(name).hydra.sweeper.params or {}).items():
        first = options(key.removeprefix("+"))[0] if values == "glob(*)" else str(values).split(",")[0]
        found[key] = f"{key}={first}"
    return found


@pytest.mark.parametrize("name", options("sweep"))
def test_sweep_names_existing_keys(name):
    composed(f"sweep={name}", *first_values(name).values())


def test_ddlb_sweep_has_all_shapes_of_its_default():
    assert set(sweep("ddlb").hydra.sweeper.params.values()) == {"512,1024,2048,8192,16384"}
    assert sweep("ddlb").dtype == "float16"


@pytest.mark.parametrize(("columnwise", "rowwise"), [("tp_columnwise", "tp_rowwise"), ("ddlb", "ddlb_rowwise")])
def test_primitives_have_equal_sweeps(columnwise, rowwise):
    both = [sweep(columnwise), sweep(rowwise)]
    assert [config.suite for config in both] == ["tp_columnwise", "tp_rowwise"]
    first, second = ((config.hydra.sweeper.params, config.measure, config.timeout_s) for config in both)
    assert first == second


def documented_commands() -> dict[tuple[str, ...], str]:
    """Every command of the README and of the guides by its words, with their first values."""
    paths = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "suites").glob("*.md")]
    text = "\n".join(path.read_text() for path in sorted(paths)).replace("\\\n", " ")
    found = {}
    for command in re.findall(r"python -m benchkit ([^`\n#]*(?:suite|sweep)=[^`\n#]*)", text):
        if re.search(r"--config-dir|SUITE|NAME|ARM", command):
            continue
        words = [word for word in shlex.split(command) if re.match(r"\+?[\w.]+=", word)]  # and no flags or arms
        first = (re.split(r",(?![^\[]*\])", word)[0] for word in words)  # no comma in brackets sweeps
        found[tuple(first)] = command
    return found


@pytest.mark.parametrize("words", documented_commands(), ids=" ".join)
def test_documented_command_composes(words):
    """With its first values: what it measures is tested elsewhere."""
    for word in words:
        if word.startswith("sweep="):
            first = first_values(word.removeprefix("sweep="))
            words += tuple(text for name, text in first.items() if name.startswith("+"))
    composed(*words)


def test_yaml_shows_its_command_and_explains_each_key():
    for path in FILES:
        lines, group = path.read_text().splitlines(), path.parent.name
        if group in ("suite", "smoke", "sweep", "launcher"):
            assert lines[0] == "# @package _global_", path  # counts on the very first line only
        head = "\n".join(line for line in lines[:4] if line.startswith("#"))
        name = f"{'+' if group in ('suite', 'smoke') else ''}{group}={path.stem}"
        assert "python -m benchkit " in head, path
        assert path.name == "config.yaml" or name in head, path
        for line in path.read_text().split("\nhydra:")[0].splitlines():
            if re.match(r"^[a-z_]+: \S", line) and not re.match(r"^(suite|name): ", line):
                assert "# " in line, f"{path}: {line}"


def test_keys_have_doc_and_unit_and_no_default():
    for schema in [RunConfig, *(suite.config for suite in load_suites().values())]:
        for item in dataclasses.fields(schema):
            assert item.default is MISSING or item.default == MISSING, f"{schema.__name__}.{item.name}"
            nested = nested_schema(item.type)
            assert nested is None or all(inner.default == MISSING for inner in dataclasses.fields(nested))
        for name, (key, _) in described_keys(schema).items():
            assert len(key.doc) > 5, name
            if name.endswith(("_s", "_seconds", "_size")) and name not in ("world_size", "model.vocab_size"):
                assert key.unit, name


def test_keys_match_golden_file():
    """A key that goes or changes its name breaks command lines; then this list and the changelog change with it."""
    assert sorted(described_keys(load_suites()["collective"].config)) == yaml.safe_load(
        (ROOT / "tests" / "golden" / "keys.yaml").read_text()
    )


def test_gradients_have_the_size_of_a_model():
    embedding, layers = 2 * 10000 * 768, 12 * (4 * 768**2 + 3 * 768 * 3072 + 2 * 768)
    config = composed("+suite=allreduce", "model=small")
    assert config.data_size == pytest.approx((embedding + layers + 768) * 4 / 2**20)
