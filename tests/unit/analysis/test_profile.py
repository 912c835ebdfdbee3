"""`python -m analysis profile`: traces of a CPU and of a GPU, written by hand."""

import gzip
import json

import pytest
from analysis.cli import main
from analysis.commands import profile


def event(name, category, start_ms, length_ms, tid=1):
    when = {"ts": start_ms * 1e3, "dur": length_ms * 1e3}
    return {"ph": "X", "name": name, "cat": category, "pid": 1, "tid": tid, **when}


def write_trace(folder, rank, *events):
    content = {"distributedInfo": {"rank": rank}, "traceEvents": [{"ph": "M", "name": "process"}, *events]}
    folder.mkdir(exist_ok=True, parents=True)
    (folder / f"trace_rank_{rank}.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))


def cpu_step(start):
    """10 ms: 6 of computing, a message in flight for 5 of which 2 are waited for."""
    return [
        event("step strategy=even", "user_annotation", start, 10),
        event("compute_block", "user_annotation", start + 1, 6),
        event("aten::mm", "cpu_op", start + 1, 5),
        event("aten::copy_", "cpu_op", start + 2, 1),
        event("gloo:send", "user_annotation", start + 4, 5),
        event("gloo:recv", "user_annotation", start + 5, 4),
        event("comm_wait", "user_annotation", start + 7, 2),
    ]


def test_profile_reports_regions_per_step(tmp_path, capsys):
    warm_up = [event("warm-up", "user_annotation", 0, 50), event("compute_block", "user_annotation", 1, 40)]
    write_trace(tmp_path, 1, *warm_up, *cpu_step(100), *cpu_step(200), *cpu_step(300))
    assert main(["profile", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[0] == "case"
    assert "compute_block [ms]" in lines[0]
    assert "on device" not in lines[0]
    assert lines[2].split() == ["strategy=even", "1", "3", "10", "6", "2", "60"]
    operators = [line.split() for line in lines if line.startswith("aten::")]
    assert operators == [["aten::mm", "12", "80"], ["aten::copy_", "3", "20"]]  # 4 of 5 ms are its own


def test_host_and_device_times_stay_separate(tmp_path, capsys):
    on_device = [
        event("step strategy=even", "gpu_user_annotation", 102, 12, tid=7),
        event("compute_block", "gpu_user_annotation", 103, 9, tid=7),
        event("gemm", "kernel", 103, 8, tid=7),
        event("ncclDevKernel_SendRecv", "kernel", 109, 4, tid=8),
    ]
    write_trace(tmp_path, 0, *cpu_step(100), *on_device)
    assert main(["profile", str(tmp_path), "--top-n", "1"]) == 0
    out = capsys.readouterr().out
    head, _, row = out.splitlines()[:3]
    assert "compute_block on device [ms]" in head
    assert row.split() == ["strategy=even", "0", "1", "10", "6", "2", "60", "9", "50"]
    assert "Top kernels" in out
    assert "gemm" in out
    assert "SendRecv" not in out


def on_two_streams(start):
    """Of a step of `cpu_step`: a label per stream; 6 ms of computing in all, 2 of them on both streams at once."""
    return [
        event("compute_block", "gpu_user_annotation", start + 1, 4, tid=7),
        event("compute_block", "gpu_user_annotation", start + 3, 4, tid=8),
        event("gemm", "kernel", start + 1, 4, tid=7),
        event("ncclDevKernel_SendRecv", "kernel", start + 3, 4, tid=8),
    ]


@pytest.mark.parametrize("labelled_streams", [(), (7,), (7, 8)])
def test_device_labels_add_no_steps(tmp_path, capsys, labelled_streams):
    events = [each for start in (100, 200) for each in (*cpu_step(start), *on_two_streams(start))]
    for start in (100, 200):
        events += [event("step strategy=even", "gpu_user_annotation", start + 1, 6, tid) for tid in labelled_streams]
    write_trace(tmp_path, 0, *events)
    assert main(["profile", str(tmp_path)]) == 0
    head, _, row = capsys.readouterr().out.splitlines()[:3]
    assert "compute_block on device [ms]" in head
    assert row.split() == ["strategy=even", "0", "2", "10", "6", "2", "60", "6", "50"]


def test_several_runs_have_run_column(tmp_path, capsys):
    for run in ("0", "1"):
        write_trace(tmp_path / run, 0, *cpu_step(100))
    assert main(["profile", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split()[0] == "run"


def test_places_without_traces_are_refused(tmp_path, capsys, golden):
    damaged = gzip.compress(b"{}")[:10] + b"\xff" * 20
    strange = ("{}", '{"traceEvents": [], "distributedInfo": {"rank": []}}', '{"traceEvents": 7}', "[" * 10_000)
    for content in (b"", b"no gzip", damaged, *(gzip.compress(text.encode()) for text in strange)):
        (tmp_path / "trace_rank_0.json.gz").write_bytes(content)
        assert main(["profile", str(tmp_path)]) == 1
        assert capsys.readouterr().err.count("\n") == 2
    (tmp_path / "trace_rank_0.json.gz").write_bytes(gzip.compress(b'{"traceEvents": [{}]}'))
    assert main(["profile", str(tmp_path)]) == 1
    assert main(["profile", str(tmp_path / "none")]) == 2
    golden(capsys.readouterr().err)


def test_intervals_unite_and_intersect():
    assert profile.union([(3, 5), (0, 1), (4, 7), (1, 2)]) == [(0, 2), (3, 7)]
    assert profile.overlap_length([(0, 4), (6, 8)], [(3, 7)]) == 2
