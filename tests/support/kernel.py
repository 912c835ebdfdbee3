"""Files of the kernel below another root, for what reads control groups."""

from pathlib import Path


def files_of_kernel(root: Path, cgroup: str, mountinfo: str, **files: str) -> Path:
    """Writes /proc/self/cgroup, /proc/self/mountinfo and `files`, given by their paths, below a root."""
    texts = {"proc/self/cgroup": cgroup, "proc/self/mountinfo": mountinfo, **files}
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n", errors="surrogateescape")
    return root
