"""Ranks that are really slowed down: what a quota or a duty cycle does to a whole job."""

from pathlib import Path

from launch.slowdown.cgroup import cgroup_parents

from tests.support.cli import Cli, wait_until


def abandoned_groups() -> list[Path]:
    """Control groups of processes that have ended; other tests slow ranks down at the same time."""
    groups = [path for room in cgroup_parents() for path in room.folder.glob("benchkit-[0-9]*")]
    return [path for path in groups if not Path("/proc", path.name.removeprefix("benchkit-")).exists()]


def test_strategies_handle_unequal_ranks(cli: Cli):
    table = cli.folder / "lut.csv"
    table.write_text("mps_pct,latency_ms\n100,1\n1,40\n")
    done = cli(
        "+suite=ring_attention", "seq_len=320", "dtype=float64", "num_heads=2", "head_dim=8", f"lut={table}",
        "world_size=3", "hardware.slowdown=[1,60,3]", "hardware.slow_by=duty_cycle", "measure=few",
        "measure.probe_seconds=1", "threads_per_rank=1",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    tokens = {case["labels"]["strategy"]: case["details"].get("tokens") for case in record["cases"]}
    assert {case["status"] for case in record["cases"] if case["labels"]["strategy"] != "torch"} == {"ok"}
    assert tokens["even"] == tokens["reference"] == [107, 106, 107]
    for strategy in ("uneven", "lut", "formula", "zigzag"):
        assert len(set(tokens[strategy])) > 1, strategy
        assert min(tokens[strategy]) > 0, strategy
    assert tokens["balanced"][1] == 0  # a single tile would take it longer than all takes the others


def test_slow_peer_is_throttled_and_cleaned_up(cli: Cli):
    given = ["+suite=ring_attention", "seq_len=256", "strategies=[reference,even,online]", "num_heads=2", "head_dim=8"]
    done = cli(*given, "measure=quick", "hardware=slow_peer", "hardware.slow_by=auto,duty_cycle", "profile=true")
    assert done.returncode == 0, done.stdout + done.stderr
    for record, mechanisms in zip(cli.records(), (("cgroup", "duty_cycle"), ("duty_cycle",)), strict=True):
        slowdown = record["slowdown"]
        assert slowdown["asked"] == [1.0, 2.0]
        assert len(slowdown["measured"]) == 2
        assert slowdown["measured"][1] > 1
        assert slowdown["mechanism"] in mechanisms
        assert [case["unslowed"] for case in record["cases"]] == [True, False, False]
        assert [case["baseline"] for case in record["cases"]] == [1, None, 1]
        assert all(warning.startswith("rank ") for warning in record["warnings"])
        assert {"calibrate", "profile"} <= set(record["phases_s"])
    assert wait_until(lambda: not cli.processes())
    assert wait_until(lambda: not abandoned_groups())
    done = cli("profile", "outputs/latest/0", module="analysis")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("strategy=")]
    assert [row[:3] for row in rows] == [
        [f"strategy={name}", str(rank), "3"] for name in ("even", "online", "reference") for rank in (0, 1)
    ]
    assert "comm_wait [ms]" in done.stdout
    assert "aten::mm" in done.stdout
