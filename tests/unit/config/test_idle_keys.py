"""Keys that change nothing are refused, unless another point of the sweep needs them; then its row says so."""

from types import SimpleNamespace

import pytest
from benchkit.config import hydra_internals
from benchkit.errors import ConfigError
from benchkit.point.point import idle_key_warnings
from benchkit.suites.compile.suite import CompileConfig
from benchkit.sweep.sweeper import require_effect

from tests.support.configs import config, made
from tests.support.planted import runs

CUDA = "hardware=cuda"
ELSEWHERE = [  # what has no effect, and what needs it
    ("+suite=compile compiler=eager", "cache=warm", "compiler=eager,default"),
    ("+suite=compile compiler=aot_eager", "cache=warm", "compiler=aot_eager,default"),
    ("+suite=compile compiler=eager", "dynamic=true", "compiler=eager,aot_eager"),
    ("+suite=compile", "context_length=64", "workload=mlp,transformer_layer model=tiny"),
    ("+suite=transformer model=tiny", "bucket_mib=50", "parallel=none,ddp world_size=2"),
    (
        "+suite=transformer model=tiny passes=[forward]",
        "activation_checkpointing=true",
        "passes=[forward],[forward_backward]",
    ),
    ("+suite=collective collective=barrier", "data_size=4", "collective=barrier,all_reduce"),
    ("+suite=auto_shard engine=dispatcher", "planner=axis0", "engine=dispatcher,dtensor"),
    ("+suite=auto_shard devices=[1]", "engine=dispatcher", "devices=[1],[1,2]"),
    (f"+suite=allreduce {CUDA} measure=graph", "measure.calls_per_sample=20", "measure.mode=graph,loop"),
    ("+suite=allreduce hardware=cpu", "hardware.ranks_per_device=2", "hardware=cpu,cuda_shared"),
]


def refusal(*arguments: str) -> str:
    """Why a sweep of these arguments would be refused; "" where it would run."""
    loader, composer = runs.composer()
    try:
        points = enumerate(hydra_internals.expand_sweep(loader, list(arguments)))
        require_effect(arguments, [composer.point(overrides, number).config for number, overrides in points])
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("setting", "idle", "needed_by"), ELSEWHERE)
def test_key_without_effect_is_refused(setting, idle, needed_by):
    assert refusal(*setting.split(), idle).startswith(f"{idle}: no effect, since ")
    replaced = {word.partition("=")[0] for word in needed_by.split()}
    others = [word for word in setting.split() if word.partition("=")[0] not in replaced]
    assert refusal(*others, *needed_by.split(), idle) == ""


def test_command_line_refuses_a_key_without_effect(check):
    assert check("+suite=compile", "compiler=eager", "cache=warm").startswith("cache=warm: no effect")


@pytest.mark.parametrize(
    "arguments",
    [
        f"+suite=allreduce {CUDA}",
        f"+suite=matmul_lut {CUDA} measure=loop",
        f"+suite=rank_speed {CUDA}",
        f"+suite=matmul_lut {CUDA} measure=filled",
    ],
)
def test_cache_is_cold_for_one_call_only(arguments):
    assert refusal(*arguments.split(), "measure.cold_l2=true").startswith("measure.cold_l2=true: allowed")


def test_row_says_which_of_its_keys_had_no_effect():
    compiled = made(CompileConfig, compiler="eager", workload="mlp", cache="warm", **vars(config()))
    point = SimpleNamespace(config=compiled, overrides=["+suite=compile", "compiler=eager", "cache=warm"])
    [warning] = idle_key_warnings(point)
    assert warning.startswith("cache=warm has no effect here")
