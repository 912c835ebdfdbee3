"""Finds by git which version of benchkit's own source is running."""

import functools
import hashlib
import subprocess
from pathlib import Path
from typing import Any


@functools.cache
def checkout() -> dict[str, Any]:
    """Returns the commit of benchkit's own checkout and what differs from it.

    It is read once, because what runs is the code that was there when this process began.

    Returns:
        `git_commit`, the hash of the commit; `git_dirty`, whether tracked files differ from it; and
        `git_diff_hash`, 12 hexadecimal digits of the hash of the difference, or None without one.
        All three are None where git does not track this file: a package that is installed below
        somebody's repository is not part of that repository.
    """
    commit = git("rev-parse", "HEAD") if git("ls-files", "--", Path(__file__).name) else ""
    if not commit:
        return {"git_commit": None, "git_dirty": None, "git_diff_hash": None}
    difference = git("diff", "--no-ext-diff", "--no-color", "--binary", "HEAD", "--")
    hashed = hashlib.sha256(difference.encode()).hexdigest()[:12] if difference else None
    return {"git_commit": commit, "git_dirty": bool(difference), "git_diff_hash": hashed}


def git(*arguments: str) -> str:
    """Returns what git prints about the checkout of this file; "" outside a checkout."""
    return output("git", "-C", str(Path(__file__).parent), *arguments)


def output(*command: str) -> str:
    """Returns what a short command prints; "" where the command fails or does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""
