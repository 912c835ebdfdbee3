"""The workflow of docs/ci.md, run in a repository made of the page's own files."""

import pytest

from tests.support.gate import PAUSE, command, files, make_repository, run_gate


@pytest.mark.parametrize(("branch", "code", "word"), [("same", 0, "1 point unchanged"), ("slower", 1, "SLOWER by")])
def test_gate_fails_slower_pull_request_alone(tmp_path, branch, code, word):
    folder = make_repository(tmp_path / "repository", slower_rounds=60, body=PAUSE)
    done = run_gate(folder, branch, max_pairs="6", fail_on="80%")
    assert done.returncode == code, done.stdout + done.stderr
    assert f"benchkit compare: {word}" in (folder / "outputs" / f"{branch}.md").read_text()
    assert (folder / "outputs" / f"compare_{branch}" / "junit.xml").exists()


def test_page_has_files_of_a_repository():
    assert list(files()) == ["speed/kernel.py", "conf/suite/kernel.yaml", ".github/workflows/speed.yaml"]
    assert "benchkit compare git:origin/main tree:. " in command()
    assert command().endswith("exit $code")
