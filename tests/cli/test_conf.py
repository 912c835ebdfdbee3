"""Every YAML under conf/: composes, is typed, says how to run it, and explains each key."""

import dataclasses
import json
import re

import pytest
import yaml
from benchkit.api.keys import described_keys, nested_schema
from benchkit.api.registry import load_suites
from benchkit.api.schema import RunConfig, as_dict
from benchkit.config import compose as composition
from benchkit.config import resolvers
from benchkit.config.identity import point_id
from benchkit.errors import ConfigError
from benchkit.visible_gpus import VisibleGpus
from hydra import compose, initialize_config_dir
from omegaconf import MISSING

from tests.support.cli import ROOT

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


def suites() -> list[str]:
    return [name for name, suite in load_suites().items() if suite.config.__module__.startswith("benchkit.")]


@pytest.mark.parametrize("suite", suites())
@pytest.mark.parametrize(("group", "option"), [(group, option) for group in GROUPS for option in options(group)])
def test_option_composes_with_suite(suite, group, option):
    words = [f"+suite={suite}", f"{group}={option}"]
    if group == "model" and not load_suites()[suite].config.uses_model:
        with pytest.raises(ConfigError, match=f"^model={option}: suite {suite} uses no model"):
            composition.typed(compose("config", words))
        return
    words += OF_MODEL.get(suite, []) if group == "model" else []
    config = composition.typed(compose("config", words))
    assert config.suite == suite
    assert type(config) is load_suites()[suite].config  # the suite's schema typed the root


@pytest.mark.parametrize("suite", suites())
def test_suite_keeps_chosen_values(suite):
    """Hydra merges +suite last; a value in a schema would silently win."""
    model = ["model=tiny"] * load_suites()[suite].config.uses_model
    given = [
        "seed=7",
        *model,
        *OF_MODEL.get(suite, []),
        "backend=nccl",
        "hardware=cuda",
        "measure=fixed",
        "measure.max_iterations=33",
    ]
    config = composition.typed(compose("config", [f"+suite={suite}", *given]))
    assert (config.seed, config.backend.name) == (7, "nccl")
    assert not model or config.model.name == "tiny"
    assert (config.hardware.device, config.measure.max_iterations) == ("cuda", 33)


@pytest.mark.parametrize(
    ("gpus", "given", "expected"),
    [
        ([], [], ("cpu", "gloo")),
        ([], ["backend=nccl"], ("cpu", "nccl")),
        ([], ["hardware=cuda"], ("cuda", "nccl")),
        (["GPU-a"], [], ("cuda", "nccl")),
        (["GPU-a"], ["hardware=auto"], ("cuda", "nccl")),
        (["GPU-a"], ["backend=gloo"], ("cuda", "gloo")),
        (["GPU-a"], ["hardware=cpu"], ("cpu", "gloo")),
        (["GPU-a"], ["hardware=cuda_shared"], ("cuda", "gloo")),
        (["GPU-a"], ["hardware=slow_gpu"], ("cuda", "gloo")),
        (["GPU-a"], ["hardware=slow_peer"], ("cpu", "gloo")),
    ],
)
def test_hardware_and_backend_follow_gpus(monkeypatch, gpus, given, expected):
    monkeypatch.setattr(resolvers, "visible_gpus", lambda: VisibleGpus(gpus))
    config = composition.typed(compose("config", ["+suite=allreduce", *given]))
    assert (config.hardware.device, config.backend.name) == expected


@pytest.mark.parametrize("stored", json.loads((ROOT / "tests" / "golden" / "identities.json").read_text()))
def test_stored_overrides_compose_to_identity(stored):
    config = composition.typed(compose("config", stored["overrides"]))
    assert point_id(as_dict(config), 2) == stored["point_id"]


@pytest.mark.parametrize("gpus", [[], ["GPU-a"]])
def test_auto_composes_what_it_stands_for(monkeypatch, gpus):
    monkeypatch.setattr(resolvers, "visible_gpus", lambda: VisibleGpus(gpus))
    typed = ["hardware=cuda", "backend=nccl"] if gpus else ["hardware=cpu", "backend=gloo"]
    assert compose("config", ["+suite=allreduce"]) == compose("config", ["+suite=allreduce", *typed])


@pytest.mark.parametrize("name", options("smoke"))
def test_smoke_point_runs_on_gpu(name):
    config = composition.typed(compose("config", [f"+smoke={name}"]))
    assert config.hardware.device == "cuda"
    swept = yaml.safe_load((CONF / "sweep" / "gpu_smoke.yaml").read_text())["hydra"]["sweeper"]["params"]["+smoke"]
    assert name in swept.replace(" ", "").split(",")


@pytest.mark.parametrize("name", options("sweep"))
def test_sweep_names_existing_keys(name):
    composed = compose("config", [f"sweep={name}"], return_hydra_config=True)
    parameters = dict(composed.hydra.sweeper.params)
    first = [f"{key}={str(value).split(',')[0]}" for key, value in parameters.items()]
    composition.typed(compose("config", [f"sweep={name}", *first]))


def test_ddlb_sweep_has_all_shapes_of_its_default():
    composed = compose("config", ["sweep=ddlb"], return_hydra_config=True)
    assert set(composed.hydra.sweeper.params.values()) == {"512,1024,2048,8192,16384"}
    assert composed.dtype == "float16"


@pytest.mark.parametrize(("columnwise", "rowwise"), [("tp_columnwise", "tp_rowwise"), ("ddlb", "ddlb_rowwise")])
def test_primitives_have_equal_sweeps(columnwise, rowwise):
    both = [compose("config", [f"sweep={name}"], return_hydra_config=True) for name in (columnwise, rowwise)]
    assert [config.suite for config in both] == ["tp_columnwise", "tp_rowwise"]
    first, second = ((config.hydra.sweeper.params, config.measure, config.timeout_s) for config in both)
    assert first == second


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CONF)))
def test_yaml_shows_its_command(path):
    lines = path.read_text().splitlines()
    if path.parent.name in ("suite", "smoke", "sweep", "launcher"):
        assert lines[0] == "# @package _global_"  # counts on the very first line only
    head = "\n".join(line for line in lines[:4] if line.startswith("#"))
    assert "python -m benchkit " in head
    group = path.parent.name
    name = f"{'+' if group in ('suite', 'smoke') else ''}{group}={path.stem}"
    assert path.name == "config.yaml" or name in head


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CONF)))
def test_yaml_key_has_comment(path):
    before_hydra = path.read_text().split("\nhydra:")[0]
    for line in before_hydra.splitlines():
        if re.match(r"^[a-z_]+: \S", line) and not re.match(r"^(suite|name): ", line):
            assert "# " in line, f"{path}: {line}"


def test_schema_has_no_defaults():
    for schema in [RunConfig, *(suite.config for suite in load_suites().values())]:
        for item in dataclasses.fields(schema):
            assert item.default is MISSING or item.default == MISSING, f"{schema.__name__}.{item.name}"
            nested = nested_schema(item.type)
            assert nested is None or all(inner.default == MISSING for inner in dataclasses.fields(nested))


def test_keys_have_doc_and_unit():
    for suite in load_suites().values():
        for name, (key, _) in described_keys(suite.config).items():
            assert len(key.doc) > 5, name
            if name.endswith(("_s", "_seconds", "_size")) and name not in ("world_size", "model.vocab_size"):
                assert key.unit, name


def test_keys_match_golden_file():
    """A key that goes or changes its name breaks command lines; then this list and the changelog change with it."""
    assert sorted(described_keys(load_suites()["collective"].config)) == yaml.safe_load(
        (ROOT / "tests" / "golden" / "keys.yaml").read_text()
    )


def test_gradient_mib_counts_model_parameters():
    config = composition.typed(compose("config", ["+suite=allreduce", "model=small"]))
    embedding, layers = 2 * 10000 * 768, 12 * (4 * 768**2 + 3 * 768 * 3072 + 2 * 768)
    assert config.data_size == pytest.approx((embedding + layers + 768) * 4 / 2**20)
    assert composition.typed(compose("config", ["+suite=allreduce", "data_size=3"])).data_size == 3
