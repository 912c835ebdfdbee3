"""The console scripts, from a folder in which the user has folders that are named like ours."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.support.cli import PATIENCE_S, ROOT, Cli

SCRIPT = "#!{python}\nimport sys\nfrom {module} import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
"""What pip writes for an entry of [project.scripts]."""
MINE = "raise SystemExit('a module of the user')\n"
COMPLETE = """
eval "$(benchkit -sc install=bash)"
for COMP_LINE in "$@"; do
    COMP_POINT=${#COMP_LINE}
    read -ra COMP_WORDS <<< "$COMP_LINE"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    $(complete -p benchkit | sed 's/.*-F \\([a-z_]*\\) .*/\\1/')
    echo "${COMPREPLY[@]}"
done
"""
"""Completes lines as bash does for the key TAB."""
COMPLETED = {
    "benchkit +suite=allr": {"+suite=allreduce"},
    "benchkit st": {"status", "start_method=", "study="},
    "benchkit --resume outputs/latest --re": {"--resume", "--resolve", "--retry"},
    "benchkit +suite=allreduce -m world_size=1,2 measure.max_s": {"measure.max_seconds="},
    "benchkit data_size=[1 mea": set(),
    "benchkit --resume out": set(),
}
"""Lines, and what they may become; those that are wrong get no complaint into the line that is being typed."""


@pytest.fixture
def scripts(cli: Cli) -> Cli:
    declared = re.search(r"\[project\.scripts\]\n(.*?)\n\n", (ROOT / "pyproject.toml").read_text(), re.DOTALL)
    assert declared
    programs = cli.folder / "bin"
    programs.mkdir()
    for name, module in re.findall(r'(\S+) = "(\S+):main"', declared[1]):
        (programs / name).write_text(SCRIPT.format(python=sys.executable, module=module))
        (programs / name).chmod(0o755)
    for package in ("analysis", "launch"):
        (cli.folder / "here" / package).mkdir(parents=True)
        (cli.folder / "here" / package / "__init__.py").write_text(MINE)
    cli.environment["PATH"] = f"{programs}{os.pathsep}{cli.environment['PATH']}"
    cli.environment.pop("BENCHKIT_SUITES")
    cli.folder = cli.folder / "here"
    return cli


def typed(cli: Cli, *command: str) -> str:
    """What a command prints that ends well."""
    done = subprocess.run(
        command, cwd=cli.folder, env=cli.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_folder_of_user_in_place_of_ours_is_refused_in_one_line(scripts, golden):
    shutil.rmtree(scripts.folder / "analysis")
    done = scripts("+suite=allreduce", module="benchkit")
    assert (done.returncode, done.stdout) == (2, "")
    golden(done.stderr, {re.escape(str(scripts.folder)): "HERE", re.escape(sys.executable): "PYTHON"})


def test_scripts_answer(scripts):
    assert typed(scripts, "benchkit", "--version").startswith("benchkit ")
    assert "usage: benchkit-analysis" in typed(scripts, "benchkit-analysis", "--help")


@pytest.mark.slow
@pytest.mark.parametrize("start", ["report=html", "start_method=spawn", "launcher=submitit_local"])
def test_sweep_ignores_folders_of_user(scripts, start):
    line = ["+suite=allreduce", "measure=quick", "data_size=0.001", "world_size=2", start]
    printed = typed(scripts, "benchkit", *line)
    assert [record["status"] for record in scripts.records()] == ["ok"]
    latest = scripts.folder / "outputs" / "latest"
    assert (latest / "report" / "report.html").exists() == ("page:" in printed) == (start == "report=html")
    assert "files in report" in typed(scripts, "benchkit-analysis", str(latest), "--output-dir", "report")


@pytest.mark.slow
def test_bash_completes_suites_and_keys_without_a_complaint(scripts):
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", *COMPLETED],
        cwd=scripts.folder, env=scripts.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert [set(line.split()) for line in done.stdout.splitlines()] == list(COMPLETED.values())
    assert done.stderr == ""


def test_readers_of_many_records_ignore_folders_of_user(scripts):
    """They are processes of their own; where these fail, the caller reads the records itself, after a complaint."""
    program = scripts.folder.parent / "read.py"
    program.write_text("from analysis.records import derive\nprint(derive.derive_in_subprocess(['absent']))")
    done = subprocess.run(
        [sys.executable, program],
        cwd=scripts.folder,
        env=scripts.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "'absent'" in done.stdout
    assert done.stderr == ""
