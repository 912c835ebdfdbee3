"""What benchkit relies on in Hydra without Hydra documenting it: names, signatures, behaviour, the wording of errors.

Where Hydra changes, a test here fails and says which lines of benchkit to change.
"""

import inspect
import re
from functools import partial
from pkgutil import resolve_name

import pytest
from benchkit.api.schema import RunConfig
from benchkit.config import compose, hydra_internals, hydra_overrides, messages
from benchkit.config.folders import config_folder
from benchkit.config.point_composer import PointComposer
from benchkit.errors import ConfigError
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

COMPOSER = "benchkit/config/point_composer.py"
INTERNALS = "benchkit/config/hydra_internals.py"
OVERRIDES = "benchkit/config/hydra_overrides.py"
MESSAGES = "benchkit/config/messages.py"
SWEEPER = "benchkit/sweep/sweeper.py"
LAUNCHERS = "benchkit/sweep/launchers.py"
SETUP = "self hydra_context task_function config"
SIGNATURES = [
    ("hydra.main:main", "config_path config_name version_base", f"run() in {INTERNALS}"),
    ("hydra.core.override_parser.overrides_parser:OverridesParser.create", "config_loader", f"parse() in {OVERRIDES}"),
    ("hydra.core.override_parser.overrides_parser:OverridesParser.parse_overrides", "self overrides", OVERRIDES),
    ("hydra.core.hydra_config:HydraConfig.set_config", "self cfg", f"subfolder() in {INTERNALS}"),
    ("hydra.core.override_parser.types:Override.sweep_iterator", "self transformer", f"values_of() in {OVERRIDES}"),
    ("hydra.core.override_parser.types:Override.get_key_element", "self", f"values_of() in {OVERRIDES}"),
    ("hydra.core.override_parser.types:Transformer.str", "x", f"values_of() in {OVERRIDES}"),
    ("hydra._internal.config_loader_impl:get_overrides_dirname", "overrides exclude_keys item_sep kv_sep", OVERRIDES),
    ("hydra._internal.config_loader_impl:ConfigLoaderImpl._apply_overrides_to_config", "overrides cfg", OVERRIDES),
    ("hydra._internal.config_repository:ConfigRepository.group_exists", "self config_path", OVERRIDES),
    ("hydra.core.config_loader:ConfigLoader.load_sweep_config", "self master_config sweep_overrides", COMPOSER),
    ("hydra.core.plugins:Plugins.instantiate_launcher", SETUP, f"Sweeper.setup() in {SWEEPER}"),
    ("hydra.core.utils:configure_log", "log_config verbose_config", f"Sweeper.sweep() in {SWEEPER}"),
    ("hydra.plugins.sweeper:Sweeper.setup", SETUP, SWEEPER),
    ("hydra.plugins.sweeper:Sweeper.sweep", "self arguments", SWEEPER),
    ("hydra.plugins.launcher:Launcher.setup", SETUP, LAUNCHERS),
    ("hydra.plugins.launcher:Launcher.launch", "self job_overrides initial_job_idx", LAUNCHERS),
]  # fmt: skip
"""Functions that benchkit calls or overrides, their parameters, and where."""
WORDING = [
    ("NO_SUCH_OPTION", "+suite=allreduce backend=glo", ("backend", "glo", "gloo mpi nccl ucc")),
    ("NULL_GROUP", "+suite=allreduce measure=null", ()),
    ("NO_SUCH_KEY", "+suite=allreduce data_sizee=1", ("data_sizee", "data_sizee=1")),
    ("NO_SUCH_KEY", "+suite=allreduce measure.max_second=[1,2]", ("measure.max_second", "measure.max_second=[1,2]")),
    ("NO_SUCH_KEY", "suite=allreduce", ("suite", None)),
    ("WRONG_VALUE", "+suite=allreduce timeout_s=abc", ("timeout_s=abc",)),
    ("NOT_IN_SCHEMA", "--config-dir conf +suite=allreduce measure=mine", ("measure/mine", "max_iteration")),
    ("MISSING_GROUP", "+suite=allreduce ~backend", ("backend",)),
    ("ADVICE", "+suite=allreduce data_size", ()),
]
"""Regular expressions of messages.py, a command line that each is for, and what it finds in Hydra's error."""


@pytest.fixture
def refusal_of(tmp_path, monkeypatch):
    """What Hydra raises for a command line."""
    monkeypatch.chdir(tmp_path)
    compose.register()

    def run(*arguments: str) -> Exception:
        with pytest.raises((*hydra_internals.ERRORS, ValueError)) as caught:
            hydra_internals.run(config_folder(), arguments)
        return caught.value

    return run


@pytest.mark.parametrize(("name", "parameters", "user"), SIGNATURES, ids=[name for name, _, _ in SIGNATURES])
def test_hydra_functions_keep_signatures(name, parameters, user):
    Plugins.instance()  # before basic_sweeper is imported, as in product()
    try:
        taken = " ".join(inspect.signature(resolve_name(name)).parameters)
    except (ImportError, AttributeError) as error:
        pytest.fail(f"Hydra has no {name} any more ({error}): find what replaces it, and change {user}")
    assert taken == parameters, f"{name} takes other parameters now: change {user}"


@pytest.mark.parametrize(("name", "line", "groups"), WORDING, ids=[f"{name}-{line}" for name, line, _ in WORDING])
def test_hydra_errors_match_messages(refusal_of, tmp_path, name, line, groups):
    (tmp_path / "conf" / "measure").mkdir(parents=True)
    (tmp_path / "conf" / "measure" / "mine.yaml").write_text("mode: loop\nmax_iteration: 3\n")
    text = " ".join(str(refusal_of(*line.split())).split())
    found = getattr(messages, name).search(text)
    assert found, f"{line!r} is refused in other words now, change {name} in {MESSAGES}: {text}"
    assert found.groups() == groups, f"{name} in {MESSAGES} finds other parts of: {text}"


def test_every_message_pattern_is_tested():
    expressions = {name for name, value in vars(messages).items() if isinstance(value, re.Pattern)}
    assert expressions == {name for name, _, _ in WORDING}, "add a command line to WORDING that provokes the error"


def test_wrong_value_has_omegaconf_cause(refusal_of):
    cause = refusal_of("+suite=allreduce", "timeout_s=abc").__cause__
    assert isinstance(cause, OmegaConfBaseException), f"the reason is elsewhere now: change explain() in {MESSAGES}"
    assert "'abc'" in str(cause)
    advice = f"errors do not lead to the whole configuration now: change schema_of() in {INTERNALS}"
    assert issubclass(hydra_internals.schema_of(cause) or object, RunConfig), advice


def test_hydra_refuses_overrides_after_flag(capsys):
    try:
        get_args_parser().parse_args(["a=1", "-m", "b=2"])
    except SystemExit:
        assert "unrecognized arguments: b=2" in capsys.readouterr().err
    else:
        pytest.fail(f"Hydra takes overrides after a flag now: flags_first() in {INTERNALS} need not move flags")


def test_hydra_hides_error_behind_sweep_comma(refusal_of, monkeypatch):
    monkeypatch.setattr(hydra_internals, "flags_first", list)
    refusal = str(refusal_of("+suite=allreduce", "data_size=1,10", "timeout_s=abc"))
    assert "Ambiguous value" in refusal, f"Hydra names the mistake now: flags_first() in {INTERNALS} need not add -m"


def test_product_uses_last_value_of_key(loader):
    arguments = ["+suite=allreduce", "seed=1,2", "backend=gloo,nccl", "seed=choice(3)"]
    points = [[each.input_line for each in point] for point in hydra_overrides.product(loader, arguments)]
    assert points == [["+suite=allreduce", "seed=3", "backend=gloo"], ["+suite=allreduce", "seed=3", "backend=nccl"]]
    assert points == BasicSweeper.split_arguments(hydra_overrides.parse(loader, arguments), None)[0]


@pytest.mark.parametrize(
    "argument",
    [
        "seed=1,2,3",
        "seed=range(1,10,3)",
        "data_size=range(0,1,0.25)",
        "on_end='a, b',\"c=d\",e\\,f",
        "data_size=choice(1,[2,3],{a:b},true,1e3,.5,'x')",
        "backend=glob(*)",
        "+backend.env.A=b,c",
        "++seed=1,2",
        "hardware@hardware=cpu,cuda",
        "seed=7",
        "data_size=1 KiB",
        "on_end=''",
        "~backend",
    ],
)
def test_values_are_those_of_parsed_lines(loader, argument):
    """Each is what Hydra's own sweeper writes as a line, and then parses for its point."""
    for override in hydra_overrides.values_of(*hydra_overrides.parse(loader, [argument])):
        (again,) = hydra_overrides.parse(loader, [override.input_line])
        assert (again.value(), again.value_type, again.type) == (override.value(), override.value_type, override.type)
        assert (again.key_or_group, again.package) == (override.key_or_group, override.package)


def test_interval_is_refused(loader):
    with pytest.raises(HydraException, match=r"seed=interval\(1,2\): allowed are values, a choice or a range"):
        list(hydra_overrides.product(loader, ["seed=interval(1,2)"]))


def test_parse_separates_overrides(loader):
    shape = [
        "+suite=allreduce",
        "++backend.env.A=b",
        "~model",
        "backend=nccl",
        "hydra/launcher@x=y",
        "hydra.verbose=true",
    ]
    overrides = hydra_overrides.parse(loader, [*shape, "seed=7"])
    parsed = hydra_overrides.sort_overrides(overrides, partial(hydra_overrides.sets_a_value, loader))
    advice = f"an attribute of Hydra's Override means something else now: change sort_overrides() in {OVERRIDES}"
    assert [override.input_line for override in parsed.values] == ["seed=7"], advice
    assert list(parsed.shape) == shape, advice
    assert parsed.lines() == [*shape[:4], "seed=7"], advice


def test_folder_resolves_hydra_node(loader, master):
    subdir = "hydra.sweep.subdir=${hydra:job.num}_${hydra.job.override_dirname}"
    before = HydraConfig.instance().cfg
    overrides = hydra_overrides.parse(loader, ["+suite=allreduce", subdir, "seed=7"])
    folder = PointComposer(loader, master).point(overrides, 3).folder
    assert folder == "3_+suite=allreduce,seed=7", f"change subfolder() or Overrides.dirname() in {INTERNALS}"
    assert HydraConfig.instance().cfg is before


@pytest.mark.parametrize("value", ["1", "1,2"])
def test_key_below_null_group_is_one_line(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    compose.register()
    with pytest.raises(ConfigError, match=r"^model\.d_ff=1.*: its group is null; choose an option of the group first$"):
        hydra_internals.run(config_folder(), ["+suite=allreduce", f"model.d_ff={value}"])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("benchkit +suite=a -m dat", "benchkit +suite=a dat"),
        ("benchkit --multirun data_size=1,2 dty", "benchkit data_size=1 dty"),
        ("benchkit data_size=[1,2] dty", "benchkit data_size=[1,2] dty"),
        ("benchkit on_end='a,b' data_size=1,2", "benchkit on_end='a,b' data_size=1,2"),
        ("benchkit +suite=a --mul", "benchkit +suite=a "),
        ("benchkit on_end='a b' dat", "benchkit on_end='a b' dat"),
        ("benchkit --resume outputs/latest --dry-run dat", "benchkit dat"),
        ("benchkit --config-dir conf +suite=a dat", "benchkit --config-dir conf +suite=a dat"),
        ("benchkit ", "benchkit "),
    ],
)
def test_completed_line_is_one_that_hydra_composes(line, expected):
    assert hydra_internals.completable(line) == expected
