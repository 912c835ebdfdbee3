"""Limits of control groups that the kernel really sets: benchkit runs in a group inside a limited one."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from launch.host import cgroups_by_version

MEMORY, CPUS = 1_200_000_000, 1.5
FILES = {
    1: {"memory": ("memory.limit_in_bytes", f"{MEMORY}"), "cpu": ("cpu.cfs_quota_us", f"{CPUS * 100_000:.0f}")},
    2: {"memory": ("memory.max", f"{MEMORY}"), "cpu": ("cpu.max", f"{CPUS * 100_000:.0f} 100000")},
}
ENTER = 'for group in $GROUPS_TO_ENTER; do echo $$ > $group/cgroup.procs; done; exec "$@"'


def limited(controller: str, name: str) -> Path:
    """A new group with a limit; of version 2 beside the own one, in which a group with processes has no children."""
    for version, folders in cgroups_by_version(controller).items():
        group = folders[min(version - 1, len(folders) - 1)] / name
        with suppress(OSError):
            group.joinpath("inner").mkdir(parents=True, exist_ok=True)
            file, value = FILES[version][controller]
            if (group / file).exists():
                (group / file).write_text(value)
                return group
        remove(group)
    pytest.skip(f"no group with a limit of {controller} can be made here")


def remove(group: Path) -> None:
    for folder in (group / "inner", group):
        with suppress(OSError):
            folder.rmdir()


@pytest.fixture
def groups(cli):
    if os.geteuid():
        pytest.skip("control groups need root")
    made = []
    try:
        for controller in ("memory", "cpu"):
            made.append(limited(controller, f"bk{cli.mark[:6]}"))
        yield [group / "inner" for group in made]
    finally:
        for group in made:
            remove(group)


@pytest.mark.parametrize("under", [[], ["unshare", "--cgroup"]], ids=["plain", "namespace"])
def test_limits_of_outer_group_count(cli, groups, under):
    names = " ".join(map(str, groups))
    enter = ["sh", "-c", ENTER, "sh", *under]
    done = cli("+suite=allreduce", "data_size=1000", "measure=quick", under=enter, GROUPS_TO_ENTER=names)
    [record] = cli.records()
    assert record["status"] == "skipped", done.stdout + done.stderr
    assert record["environment"]["cpu_quota"] == CPUS
    assert record["environment"]["available_cores"] == 1
    assert record["environment"]["available_bytes"] < MEMORY
    done = cli(
        "+suite=allreduce", "data_size=0.1", "measure=quick", "hardware.slowdown=2", "hardware.slow_by=cgroup",
        under=enter, GROUPS_TO_ENTER=names,
    )  # fmt: skip
    [record] = cli.records()
    assert record["status"] == "ok", done.stdout + done.stderr
    assert not [warning for warning in record["warnings"] if "quota" in warning or "memory" in warning]
