"""Run the gate of docs/ci.md on a repository with a commit that is 10 % slower and one that is not.

    python -m perf.gate

Print the exit code and the page of both.
"""

import tempfile
import time
from pathlib import Path

from tests.support import gate


def main() -> None:
    folder = gate.make_repository(Path(tempfile.mkdtemp()) / "repository", slower_rounds=22)
    for branch in ("same", "slower"):
        began = time.perf_counter()
        done = gate.run_gate(folder, branch)
        print(f"\n{branch}: exit code {done.returncode} after {time.perf_counter() - began:.0f} s\n", flush=True)
        print((folder / "outputs" / f"{branch}.md").read_text() or done.stderr)


if __name__ == "__main__":
    main()
