"""What a comparison of commits leaves of the user's repository: all as it was, also within a hook of git."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import Cli, ends, wait_until

WHO = {
    f"GIT_{role}_{what}": text
    for role in ("AUTHOR", "COMMITTER")
    for what, text in (("NAME", "n"), ("EMAIL", "n@example.org"), ("DATE", "2026-01-01T00:00:00Z"))
}
NO_RUN = "raise SystemExit('not this one')\n"
COMPARE = ("compare", "git:HEAD~1", "git:HEAD~1", "+suite=allreduce", "--pairs", "6")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", folder, *words], env={**os.environ, **WHO}, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(cli: Cli) -> Path:
    """A commit whose part/benchkit.py ends a run at once, and one without that."""
    folder = cli.folder / "user"
    (folder / "part").mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "part" / "a.py").write_text("a = 1\n")
    (folder / "part" / "benchkit.py").write_text(NO_RUN)
    (folder / ".gitattributes").write_text("*.py filter=slow\n")  # which has no effect until it is configured
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    git(folder, "rm", "--quiet", "part/benchkit.py")
    git(folder, "commit", "--quiet", "-m", "two")
    return folder


def files_of_git(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (folder / ".git").rglob("*") if path.is_file()}


@pytest.mark.parametrize("is_linked", [False, True], ids=["clone", "linked"])
@pytest.mark.parametrize("how", [("-m", "three"), ("-a", "-m", "three")], ids=["staged", "all"])
def test_commit_is_the_one_without_a_comparison_in_its_hook(cli, repository, is_linked, how):
    work = cli.folder / "linked" if is_linked else repository
    if is_linked:
        git(repository, "worktree", "add", "--quiet", str(work))
    (work / "part" / "a.py").write_text("a = 2\n")
    git(work, "add", ".")
    (work / "part" / "a.py").write_text("a = 3\n")
    git(work, "commit", "--quiet", "--no-verify", *how)
    expected = git(work, "rev-parse", "HEAD")
    git(work, "reset", "--quiet", "--soft", "HEAD~1")
    (work / "part" / "a.py").write_text("a = 2\n")
    git(work, "add", ".")
    (work / "part" / "a.py").write_text("a = 3\n")
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    listed = f"find {repository}/.git -type f -exec sha256sum {{}} + | sort >"
    command = shlex.join([sys.executable, "-m", "benchkit", *COMPARE, "--dir", str(cli.folder / "c")])
    hook.write_text(f"""#!/bin/sh
{listed} {cli.folder}/before
(cd part && {command}) > {cli.folder}/said 2>&1
echo $? >> {cli.folder}/said
{listed} {cli.folder}/after
""")
    hook.chmod(0o755)
    subprocess.run(["git", "-C", work, "commit", "--quiet", *how], env={**cli.environment, **WHO}, check=True)
    said = (cli.folder / "said").read_text()
    assert "not this one" in said
    assert said.endswith("\n2\n")
    assert (cli.folder / "before").read_text() == (cli.folder / "after").read_text()
    assert git(work, "rev-parse", "HEAD") == expected
    assert len(git(repository, "worktree", "list").splitlines()) == 1 + is_linked


def test_killed_checkout_is_made_again_and_leaves_nothing(cli, repository):
    filtered = f"touch {cli.folder}/begun; while [ ! -e {cli.folder}/go ]; do sleep 0.05; done; cat"
    git(repository, "config", "filter.slow.smudge", filtered)
    before = files_of_git(repository)
    place = cli.folder
    cli.folder = repository / "part"
    process = cli.start(*COMPARE, "--dir", str(place / "c"), module="benchkit.__main__")
    cli.folder = place
    assert wait_until(lambda: (cli.folder / "begun").exists() or process.poll() is not None)
    assert process.poll() is None
    process.kill()
    process.communicate()
    assert files_of_git(repository) == before
    (cli.folder / "go").touch()
    resumed = cli.start("compare", "--resume", str(cli.folder / "c"), module="benchkit.__main__")
    [(code, _, err)] = ends([resumed])
    tree, *others = [path for path in (cli.folder / "c" / "trees").iterdir() if not path.name.startswith(".")]
    assert (code, others) == (2, [])
    assert "no point was run" in err
    assert (tree / "part" / "a.py").read_text() == "a = 1\n"
    assert files_of_git(repository) == before
