"""Runs git, which reads the user's repository and changes nothing in it.

In a hook, environment variables name git's repository, and the index of the commit. They would
override the folder of a query, and a checkout would overwrite that index: they are removed.
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

OF_ONE_REPOSITORY = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)  # fmt: skip
"""What `git rev-parse --local-env-vars` lists, in any version of git."""
OPTIONS = ("--no-optional-locks", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
"""Hooks and the file system monitor are programs of the user's, which may write anywhere."""


class GitFailed(Exception):
    """The message is git's standard error in one line; it may be empty."""


def without_repository(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in OF_ONE_REPOSITORY}


def git(folder: Path, *arguments: str, timeout_s: float | None = None, **variables: str) -> str:
    """Return git's output for a folder; raise GitFailed if git fails or does not run.

    It has no terminal, so that neither git nor ssh asks for a password.
    """
    try:
        done = subprocess.run(
            ["git", "-C", os.fspath(folder), *OPTIONS, *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            errors="surrogateescape",
            env=without_repository(os.environ) | {"GIT_TERMINAL_PROMPT": "0"} | variables,
            start_new_session=True,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitFailed(f"git does not run ({error})") from None
    if done.returncode:
        raise GitFailed(" ".join(done.stderr.split()))
    return done.stdout.strip()


def check_out(folder: Path, commit: str, tree: Path) -> None:
    """Check out a commit of the repository that `folder` is in; raise GitFailed on failure.

    The checkout is a repository that borrows objects and settings from the user's. A worktree would
    stay registered there. Objects that a partial clone lacks are fetched into
    the checkout.
    """
    source = Path(folder, git(folder, "rev-parse", "--git-common-dir")).resolve()
    object_format = "sha256" if len(commit) == 64 else "sha1"
    tree.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=tree.parent) as temporary:
        part = Path(temporary) / tree.name
        git(
            tree.parent, "init", "--quiet", "--template=", str(part), GIT_DEFAULT_HASH=object_format
        )
        (part / ".git" / "objects" / "info").mkdir(exist_ok=True)
        borrowed = part / ".git" / "objects" / "info" / "alternates"
        borrowed.write_bytes(os.fsencode(source / "objects") + b"\n")
        git(part, "config", "include.path", str(source / "config"))
        git(part, "-c", "core.sparseCheckout=false", "checkout", "--quiet", "--detach", commit)
        part.rename(tree)
