"""`python -m benchkit import-config`: the command that measures what a file of DDLB describes."""

import json
import shlex

import pytest
from benchkit.cli import check
from benchkit.config import ddlb
from benchkit.errors import ConfigError

README = {
    "primitive": "tp_columnwise", "m": 65536, "n": 1024, "k": 1024, "dtype": "float32", "validate": True,
    "num_iterations": 50, "num_warmups": 5,
    "implementations": {
        "compute_only": [{"size": "unsharded"}],
        "pytorch": [{"backend": ["nccl", "ucc/tl/nccl", "ucc/tl/cuda"], "order": ["AG_before", "AG_after"]}],
    },
}  # fmt: skip
"""The example of DDLB's README."""


def import_config(tmp_path, capsys, **changes):
    """The exit code, what is printed, and the complaints."""
    path = tmp_path / "ddlb.json"
    path.write_text(json.dumps({"benchmark": README | changes}))
    code = ddlb.main([str(path)], check)
    out, err = capsys.readouterr()
    return code, shlex.split(out), [line.removeprefix(f"benchkit: {path}: ") for line in err.splitlines()]


def test_example_becomes_a_command_that_runs(tmp_path, capsys):
    code, words, complaints = import_config(tmp_path, capsys)
    assert (code, complaints) == (0, [])
    assert words == [
        "python", "-m", "benchkit", "+suite=tp_columnwise", "-m", "m=65536", "n=1024", "k=1024", "dtype=float32",
        "measure=fixed", "measure.max_iterations=50", "measure.min_blocks=50", "measure.warmup_iterations=5",
        "~implementations",
        "+implementations={compute_only:[{size:unsharded}],"
        "pytorch:[{backend:[nccl,ucc/tl/nccl,ucc/tl/cuda],order:[AG_before,AG_after]}]}",
    ]  # fmt: skip
    assert check(words[3:]) == ""


def test_lists_multiply_out(tmp_path, capsys):
    _, words, _ = import_config(tmp_path, capsys, m=[512, 1024], dtype=["float16", "bfloat16"])
    assert {"m=512,1024", "dtype=float16,bfloat16"} <= set(words)


def test_run_without_barriers_is_a_loop(tmp_path, capsys):
    _, words, complaints = import_config(tmp_path, capsys, barrier_at_each_iteration=False, num_iterations=20)
    assert {"measure=loop", "measure.calls_per_sample=20", "measure.warmup_iterations=1"} <= set(words)
    assert check(words[3:]) == ""
    assert complaints == [
        "barrier_at_each_iteration=false: DDLB takes the total of all calls once; here the total of 20 calls is a "
        "sample, and several are taken"
    ]


def test_everything_without_counterpart_has_its_line(tmp_path, capsys):
    groups = {"fuser": [{"algorithm": "p2p_pipeline"}], "pytorch": [{"ordre": "AG_after"}]}
    changes = {"validate": False, "time_measurement_backend": "cpu_clock", "gpus": 2, "implementations": groups}
    code, words, complaints = import_config(tmp_path, capsys, **changes)
    assert code == 0
    assert words[-1] == "+implementations={pytorch:[{}]}"
    assert check(words[3:]) == ""
    assert [complaint.split(":")[:2] for complaint in complaints] == [
        ["left out", " gpus"], ["left out", " validate=false"], ["left out", ' time_measurement_backend="cpu_clock"'],
        ["left out", " implementations.fuser"], ["left out", " implementations.pytorch.ordre"],
    ]  # fmt: skip


def test_file_without_any_counterpart_has_no_command(tmp_path, capsys):
    code, words, complaints = import_config(tmp_path, capsys, implementations={"fuser": []})
    assert (code, words) == (2, [])
    assert complaints[0].startswith("left out: implementations.fuser: no such implementation")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"dtype": "int32"}, "dtype=int32: allowed is float16"),
        ({"m": None}, "m: missing"),
        ({"m": 0}, "m=0: allowed"),
        ({"primitive": "attention"}, "primitive=attention: allowed are tp_columnwise, tp_rowwise"),
        ({"implementations": []}, "implementations=[]: allowed is"),
        ({"implementations": {"pytorch": [{"order": "AG"}]}}, "implementations.pytorch.order=AG: allowed are"),
    ],
)
def test_invalid_setting_is_refused_in_one_line(tmp_path, capsys, changes, complaint):
    code, words, complaints = import_config(tmp_path, capsys, **changes)
    assert (code, words, len(complaints)) == (2, [], 1)
    assert complaint in complaints[0]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"benchmark": 3}'])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ConfigError, match=r"import-config .*a\.json"):
        ddlb.main([str(tmp_path / "a.json")], check)
    with pytest.raises(ConfigError, match="allowed is one JSON file"):
        ddlb.main([], check)
