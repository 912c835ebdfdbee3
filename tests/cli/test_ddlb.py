"""`python -m benchkit import-config`: the command that measures what a file of DDLB describes."""

import json

import pytest

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


@pytest.fixture
def import_config(told, tmp_path):
    """For a text in a file the exit code, whether there is a command, and all that is printed."""

    def run(text):
        (tmp_path / "ddlb.json").write_text(text)
        code, out, err = told("import-config", "ddlb.json")
        return code, bool(out), out + err

    return run


def changed(changes):
    return json.dumps({"benchmark": README | changes})


@pytest.mark.parametrize("changes", [{}, LOOP, FOREIGN], ids=["example", "loop", "foreign"])
def test_file_becomes_a_command_and_a_line_for_each_thing_left_out(import_config, golden, changes):
    code, has_command, text = import_config(changed(changes))
    assert (code, has_command) == (0, True)  # main checks that the command would run
    golden(text)


WRONG = [
    {"dtype": "int32"}, {"m": None}, {"primitive": "attention"}, {"implementations": {"fuser": []}},
    {"implementations": {"pytorch": [{"order": "AG"}]}},
]  # fmt: skip


def test_wrong_settings_are_refused_without_a_command(import_config, golden):
    found = [import_config(changed(changes)) for changes in WRONG]
    assert [(code, has_command) for code, has_command, _ in found] == [(2, False)] * len(WRONG)
    golden("".join(text for _, _, text in found))


@pytest.mark.parametrize("text", ["", "[]", '{"benchmark": 3}'])
def test_other_files_are_refused(import_config, told, text):
    code, has_command, complaint = import_config(text)
    assert (code, has_command, complaint.count("\n")) == (2, False, 1)
    assert told("import-config")[0] == 2
