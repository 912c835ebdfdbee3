"""git as benchkit runs it: it obeys the folder, starts no hook, and finds commits in every kind of repository."""

import subprocess
from pathlib import Path

import pytest
from benchkit import environment
from benchkit.compare.arms import make_folder, parse_arm
from benchkit.errors import ConfigError
from benchkit.git import OF_ONE_REPOSITORY, GitFailed, check_out, git

IDENTITY = ("-c", "user.name=x", "-c", "user.email=x@y", "-c", "protocol.file.allow=always")


def run(folder: Path, *words: object) -> str:
    command = ["git", "-C", folder, *IDENTITY, *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A repository of two commits, and a third one that no branch leads to."""
    return repository(tmp_path / "user")


def repository(folder: Path, *options: str) -> Path:
    folder.mkdir()
    run(folder, "init", "--quiet", *options)
    run(folder, "config", "uploadpack.allowFilter", "true")
    for number in range(3):
        (folder / "part").mkdir(exist_ok=True)
        (folder / "part" / "a.py").write_text(f"{number}\n")
        run(folder, "add", ".")
        run(folder, "commit", "--quiet", "-m", number)
    run(folder, "reset", "--quiet", "--hard", "HEAD~1")
    return folder


def files_of_git(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def clone(user: Path, *options: str) -> Path:
    run(user.parent, "clone", "--quiet", *options, f"file://{user}", "clone")
    return user.parent / "clone"


def submodule(user: Path) -> Path:
    run(user.parent, "init", "--quiet", "above")
    run(user.parent / "above", "submodule", "--quiet", "add", user, "below")
    return user.parent / "above" / "below"


def sparse(user: Path) -> Path:
    folder = clone(user)
    run(folder, "sparse-checkout", "set", "elsewhere")
    return folder


def linked(user: Path) -> Path:
    run(user, "worktree", "add", "--quiet", user.parent / "linked")
    return user.parent / "linked"


REPOSITORIES = {
    "plain": lambda user: user,
    "below": lambda user: user / "part",
    "linked": linked,
    "bare": lambda user: clone(user, "--bare"),
    "shallow": lambda user: clone(user, "--depth", "1"),
    "partial": lambda user: clone(user, "--filter=blob:none", "--no-checkout"),
    "sparse": sparse,
    "submodule": submodule,
    "sha256": lambda user: repository(user.parent / "sha256", "--object-format=sha256"),
}


@pytest.mark.parametrize("kind", REPOSITORIES)
def test_commit_is_checked_out_and_repository_stays_as_it_was(user, kind):
    folder = REPOSITORIES[kind](user)
    commit = run(folder, "rev-parse", "HEAD")
    before = files_of_git(user.parent)
    tree = user.parent / "trees" / "tree"
    check_out(folder, commit, tree)
    assert (tree / "part" / "a.py").read_text() == "1\n"
    assert (git(tree, "rev-parse", "HEAD"), git(tree, "status", "--short")) == (commit, "")
    after = files_of_git(user.parent)
    assert {path: after[path] for path in after if tree not in path.parents} == before


def test_commit_without_a_branch_is_checked_out_once(user, monkeypatch):
    commit = run(user, "rev-parse", "HEAD@{1}")
    monkeypatch.chdir(user / "part")
    arm = parse_arm(f"git:{commit[:10]}", user.parent / "trees")
    assert arm.commit == commit
    assert not (user.parent / "trees").exists()
    make_folder(arm)
    made = Path(arm.folder) / "a.py"
    assert made.read_text() == "2\n"
    made.write_text("edited\n")
    make_folder(arm)
    assert made.read_text() == "edited\n"
    assert [path.name for path in (user.parent / "trees").iterdir()] == [commit[:12]]


def test_refused_checkout_leaves_no_part_of_it(user):
    (user / ".gitattributes").write_text("*.py filter=lacking\n")
    run(user, "add", ".gitattributes")
    run(user, "commit", "--quiet", "-m", "filtered")
    run(user, "config", "filter.lacking.smudge", "false")
    run(user, "config", "filter.lacking.required", "true")
    with pytest.raises(GitFailed, match="lacking"):
        check_out(user, run(user, "rev-parse", "HEAD"), user.parent / "trees" / "tree")
    assert list((user.parent / "trees").iterdir()) == []


def test_no_hook_runs(user):
    hook = user / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    run(user, "config", "core.hooksPath", hook.parent)
    check_out(user, run(user, "rev-parse", "HEAD"), user.parent / "tree")
    assert (user.parent / "tree" / "part" / "a.py").exists()


def test_folder_wins_over_what_a_hook_of_git_sets(user, monkeypatch):
    other = repository(user.parent / "other")
    run(other, "commit", "--quiet", "--allow-empty", "-m", "of other")
    expected = run(user, "rev-parse", "HEAD")
    assert set(run(user, "rev-parse", "--local-env-vars").split()) <= set(OF_ONE_REPOSITORY)
    for name, value in {"GIT_DIR": other / ".git", "GIT_INDEX_FILE": other / ".git" / "index"}.items():
        monkeypatch.setenv(name, str(value))
    before = files_of_git(other)
    assert git(user, "rev-parse", "HEAD") == expected
    check_out(user, expected, user.parent / "tree")
    assert files_of_git(other) == before
    assert not set(OF_ONE_REPOSITORY) & parse_arm("env:A=1", user).variables().keys()
    monkeypatch.setattr(environment, "__file__", str(user / "part" / "a.py"))
    assert environment.checkout.__wrapped__()["git_commit"] == expected


def test_checkout_of_another_owner_has_a_commit_and_an_arm_of_it_the_reason(user, monkeypatch):
    commit = run(user, "rev-parse", "HEAD")
    monkeypatch.setattr(environment, "__file__", str(user / "part" / "a.py"))
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert environment.checkout.__wrapped__()["git_commit"] == commit
    monkeypatch.chdir(user)
    with pytest.raises(ConfigError, match=r"git:HEAD: .*dubious ownership.*safe\.directory"):
        parse_arm("git:HEAD", user.parent)


@pytest.mark.parametrize("revision", ["nope", "--help", "HEAD^{tree}", "HEAD~9", ""])
def test_no_commit_is_refused_in_one_line(user, monkeypatch, revision):
    monkeypatch.chdir(user)
    with pytest.raises(ConfigError) as caught:
        parse_arm(f"git:{revision}", user.parent)
    assert "\n" not in str(caught.value)


def test_machine_without_git_is_named(user, monkeypatch):
    monkeypatch.setenv("PATH", str(user))
    with pytest.raises(GitFailed, match="does not run"):
        git(user, "status")
    assert environment.checkout.__wrapped__()["git_commit"] is None
