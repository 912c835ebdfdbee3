import json

import pytest

PARTS = ("Noise:", "Runs:", "Modes:", "Back to back and single calls:")


@pytest.mark.slow
def test_selftest_floor_is_in_records_and_tables(cli):
    state = {"XDG_STATE_HOME": str(cli.folder / "state")}
    done = cli("selftest", "--seconds", "1", "--even-if-busy", module="benchkit.__main__", **state)
    assert done.returncode == 0, done.stderr
    assert all(f"\n\n{part} " in done.stdout for part in PARTS)
    [floor] = json.loads((cli.folder / "state" / "benchkit" / "noise_floor.json").read_text())["floors"]
    assert len(floor["sizes"]) == 5

    done = cli("+suite=allreduce", "data_size=1KiB", "measure=quick", **state)
    [record] = cli.records()
    assert record["noise_floor"]["id"] == floor["id"]
    assert "identical runs differ by " in " ".join(done.stdout.split())
    done = cli("+suite=allreduce", "data_size=1KiB", "measure=quick", "world_size=3", **state)
    assert cli.records()[0]["noise_floor"] is None
    assert "identical runs differ" not in " ".join(done.stdout.split())


@pytest.mark.slow
def test_selftest_refuses_missing_backend(cli):
    done = cli("selftest", "--backend", "mpi", "--dir", "here", "--seconds", "1", module="benchkit.__main__")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("benchkit selftest: ")
    assert "Traceback" not in done.stderr
    assert not (cli.folder / "here" / "noise_floor.json").exists()


@pytest.mark.slow
def test_baseline_and_best_case_are_timed_alone(cli):
    done = cli("+suite=tp_columnwise", "m=64", "n=64", "k=64", "measure=few", "measure.alone=auto")
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    assert record["warnings"] == []
    assert 1 <= len(record["alone"]) <= 2
    for alone in record["alone"]:
        [case] = [case for case in record["cases"] if case["labels"] == alone["labels"]]
        assert not case["is_component"]
        assert (alone["status"], alone["baseline"], len(alone["samples_s"])) == ("ok", None, 2)
    assert record["phases_s"]["alone"] > 0
    folder = cli.folder / "outputs" / "latest" / "0"
    logs = {str(path.relative_to(folder)) for path in folder.rglob("rank_*.log")}
    numbers = range(len(record["alone"]))
    assert logs == {"rank_0.log", "rank_1.log", *(f"alone_{n}/rank_{rank}.log" for n in numbers for rank in (0, 1))}
