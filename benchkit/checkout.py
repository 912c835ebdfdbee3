"""Which version of benchkit's own source this is, by git."""

import functools
import hashlib
import subprocess
from pathlib import Path
from typing import Any


@functools.cache
def checkout() -> dict[str, Any]:
    """Commit of benchkit's own checkout, whether tracked files differ from it, and a hash of the difference.

    All are None where this file is not tracked: a package installed below somebody's repository is not part of it.
    """
    commit = git("rev-parse", "HEAD") if git("ls-files", "--", Path(__file__).name) else ""
    if not commit:
        return {"git_commit": None, "git_dirty": None, "git_diff_hash": None}
    difference = git("diff", "--no-ext-diff", "--no-color", "--binary", "HEAD", "--")
    hashed = hashlib.sha256(difference.encode()).hexdigest()[:12] if difference else None
    return {"git_commit": commit, "git_dirty": bool(difference), "git_diff_hash": hashed}


def git(*arguments: str) -> str:
    """Asks git about the checkout that this code lies in; "" where it lies in none."""
    return output("git", "-C", str(Path(__file__).parent), *arguments)


def output(*command: str) -> str:
    """What a short command prints, or "" where it fails or does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""
