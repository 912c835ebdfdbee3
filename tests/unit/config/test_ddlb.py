"""`python -m benchkit import-config`: the command that measures what a file of DDLB describes."""

import json

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
LOOP = {"barrier_at_each_iteration": False, "num_iterations": 20, "m": [512, 1024], "dtype": ["float16", "bfloat16"]}
FOREIGN = {
    "validate": False, "time_measurement_backend": "cpu_clock", "gpus": 2,
    "implementations": {"fuser": [{"algorithm": "p2p_pipeline"}], "pytorch": [{"ordre": "AG_after"}]},
}  # fmt: skip


def import_config(tmp_path, capsys, changes):
    """The exit code, whether there is a command, and all that is printed."""
    path = tmp_path / "ddlb.json"
    path.write_text(json.dumps({"benchmark": README | changes}))
    code = ddlb.main([str(path)], check)
    out, err = capsys.readouterr()
    return code, bool(out), out + err.replace(str(path), "FILE")


@pytest.mark.parametrize("changes", [{}, LOOP, FOREIGN], ids=["example", "loop", "foreign"])
def test_file_becomes_a_command_and_a_line_for_each_thing_left_out(tmp_path, capsys, golden, changes):
    code, has_command, text = import_config(tmp_path, capsys, changes)
    assert (code, has_command) == (0, True)  # main checks that the command would run
    golden(text)


WRONG = [
    {"dtype": "int32"}, {"m": None}, {"primitive": "attention"}, {"implementations": {"fuser": []}},
    {"implementations": {"pytorch": [{"order": "AG"}]}},
]  # fmt: skip


def test_wrong_settings_are_refused_without_a_command(tmp_path, capsys, golden):
    found = [import_config(tmp_path, capsys, changes) for changes in WRONG]
    assert [(code, has_command) for code, has_command, _ in found] == [(2, False)] * len(WRONG)
    golden("".join(text for _, _, text in found))


@pytest.mark.parametrize("text", ["", "[]", '{"benchmark": 3}'])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ConfigError, match=r"a\.json"):
        ddlb.main([str(tmp_path / "a.json")], check)
    with pytest.raises(ConfigError, match="import-config"):
        ddlb.main([], check)
