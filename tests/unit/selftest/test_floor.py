import datetime
import json
import os
from dataclasses import replace

import pytest
from benchkit.record.record import HostReport
from benchkit.selftest import floor as lookup
from benchkit.selftest.floor import FILE_NAME, SizeFloor, fingerprint, machine_floor, read, state_folder, store

from tests.support.records import as_record, make_record

HOST = HostReport(host="here", cpu="a processor", available_cores=4, kernel="6.1.0-18-amd64", torch="2.13.0+cpu")
SIZES = [
    SizeFloor(what="all_reduce 1KiB", median_s=1e-4, sigma_run=0.12, num_runs=12),
    SizeFloor(what="all_reduce 1MiB", median_s=1e-3, sigma_run=0.02, num_runs=12),
]
TIME = datetime.datetime(2026, 11, 20, tzinfo=datetime.timezone.utc)


def floor_of_age(days, host=HOST, **changes):
    settings = {"world_size": 2, "threads": 1, "backend": "gloo"} | changes
    written = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)
    return machine_floor(fingerprint(host, **settings), SIZES, written.isoformat())


def recorded(**changes):
    """A record of HOST whose calls take 1 ms."""
    content = make_record(**{"title": "all_reduce"} | changes)
    content["environment"] |= {"cpu": HOST.cpu, "kernel": HOST.kernel, "torch": HOST.torch}
    return as_record(content)


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "benchkit"


def test_floor_replaces_its_own_kind(tmp_path):
    other = floor_of_age(1, world_size=4)
    for floor in (floor_of_age(5), other, floor_of_age(2)):
        store(floor, tmp_path / "new")
    kept = read(tmp_path / "new")
    assert [each.fingerprint.world_size for each in kept] == [4, 2]
    assert kept[0] == other
    assert kept[1].age_s() == pytest.approx(2 * 86400, rel=0.01)


@pytest.mark.parametrize(
    ("floor", "applies"),
    [
        (floor_of_age(29), True),
        (floor_of_age(31), False),
        (floor_of_age(1, host=HostReport(**{**vars(HOST), "kernel": "6.1.9", "torch": "2.13.1"})), True),
        (floor_of_age(-1), False),
        (floor_of_age(1, world_size=4), False),
        (floor_of_age(1, device="cuda"), False),
        (floor_of_age(1, host=HostReport(**{**vars(HOST), "kernel": "6.2.0"})), False),
        (floor_of_age(1, host=HostReport(**{**vars(HOST), "torch": "2.12.0"})), False),
    ],
)
def test_floor_applies_for_30_days(floor, applies, state):
    store(floor, state)
    assert (lookup.floor_of(recorded()) is not None) is applies


def test_floor_of_gpus_is_of_their_kind_and_driver():
    one, other = ([{"name": name}] for name in ("NVIDIA H100", "NVIDIA B200"))
    of_gpu = {"world_size": 2, "threads": 1, "backend": "nccl", "device": "cuda"}
    hosts = [HostReport(host="n", gpus=gpus, driver=driver) for gpus, driver in ((one, "1"), (other, "1"), (one, "2"))]
    assert len({fingerprint(host, **of_gpu) for host in hosts}) == 3
    of_cpu = of_gpu | {"device": "cpu", "backend": "gloo"}
    assert len({fingerprint(host, **of_cpu) for host in hosts}) == 1


def test_nearest_size_counts(state):
    floor = floor_of_age(1)
    store(floor, state)
    assert [floor.nearest("all_reduce", seconds).what[-4:] for seconds in (0.0, 1e-5, 1.0)] == ["1KiB", "1KiB", "1MiB"]
    found = lookup.floor_of(recorded(seconds=1.1e-3))
    assert (found.id, found.sigma_run, found.at) == (floor.id, 0.02, "all_reduce 1MiB")
    assert found.age_s == pytest.approx(86400, rel=0.01)


def test_size_of_few_runs_does_not_count(state):
    """As files of before hold them, ± 0 % of a single run among them."""
    sizes = [
        SizeFloor(what="all_reduce 1MiB", median_s=1e-3, sigma_run=0.0, num_runs=1),
        SizeFloor(what="all_reduce 2MiB", median_s=2e-3, sigma_run=0.01, num_runs=5),
    ]
    floor = floor_of_age(1)
    store(replace(floor, sizes=[*sizes, SIZES[0]]), state)
    assert lookup.floor_of(recorded()).at == SIZES[0].what
    store(replace(floor, sizes=sizes), state)
    assert lookup.floor_of(recorded()) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"title": "all_gather"},
        {"title": "all_red"},
        {"status": "oom"},
        {"agents": [{"host": "n0"}, {"host": "n1"}]},
        {"slowdown": {"asked": [1.0, 2.0], "mechanism": "cgroup"}},
    ],
)
def test_floor_needs_like_conditions(changes, state):
    store(floor_of_age(1), state)
    assert lookup.floor_of(recorded(**changes)) is None


def content(**changes):
    floor = {
        "id": "abc", "written_at": TIME.isoformat(),
        "fingerprint": {
            "cpu": "a", "cores": 2, "kernel": "6.1", "torch": "2.13", "world_size": 2, "threads": 1, "backend": "gloo",
        },
        "sizes": [{"what": "x", "median_s": 1e-3, "sigma_run": 0.1, "num_runs": 2}],
    }  # fmt: skip
    return json.dumps({"floors": [floor | changes]}).encode()


def size(**changes):
    return [{"what": "x", "median_s": 1e-3, "sigma_run": 0.1, "num_runs": 2} | changes]


@pytest.mark.parametrize(
    "hostile",
    [
        b"", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"floors": [{}]}', content(written_at="2026-11-20"),
        content(sizes=[]), content(id="\x1b[2J"), content(sizes=size(what="x\n")), content(sizes=size(median_s=0)),
        content(sizes=size(sigma_run=-1)), content(sizes=size(sigma_run=1e300)), b" " * 2**20 + content(),
    ],
)  # fmt: skip
def test_hostile_file_is_ignored_with_one_line(hostile, state):
    state.mkdir()
    (state / FILE_NAME).write_bytes(content())
    assert len(read(state)) == 1
    (state / FILE_NAME).write_bytes(hostile)
    problem = lookup.problem()
    assert str(state / FILE_NAME) in problem
    assert problem.isprintable()
    assert lookup.floor_of(recorded()) is None
    store(floor_of_age(1), state)  # a selftest replaces it
    assert lookup.problem() is None


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_ignored(make, state):
    state.mkdir()
    make(state / FILE_NAME)
    assert lookup.floor_of(recorded()) is None
    assert len(lookup.problem().splitlines()) == 1


def test_state_folder_is_absolute(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert state_folder() == tmp_path / ".local" / "state" / "benchkit"
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # a user without a home
    assert state_folder().is_absolute()
