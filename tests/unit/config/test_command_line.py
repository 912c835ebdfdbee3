"""Values as people type them become those of the schema."""

import pytest
from benchkit.config.command_line import normalize_override


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("timeout_s=90s,1.5h,2min", "timeout_s=90,5400,120"),
        ("host_wait_s=500ms", "host_wait_s=0.5"),
        ("measure.max_iterations=1.5e3,20", "measure.max_iterations=1500,20"),
        ("measure.max_iterations=1.5e0", "measure.max_iterations=1.5e0"),
        ("dtype=fp16,bf16,float32", "dtype=float16,bfloat16,float32"),
        ("data_size=1M-4M,64K", "data_size=1024KiB,2048KiB,4096KiB,64K"),
        ("data_size=10MB", "data_size=10MB"),
        ("data_size=[1K,2K-4K],[1MB]", "data_size=[1K,2KiB,4KiB],[1MB]"),
        ("sizes=[512-1K]", "sizes=[512B,1KiB]"),
        ("on_end=[10m]", "on_end=[10m]"),
        ("seq_len=8-16", "seq_len=8-16"),
        ("timeout_s='10m'", "timeout_s='10m'"),
        ("timeout_s=ten", "timeout_s=ten"),
        ("data_size=choice(1,2)", "data_size=choice(1,2)"),
        ("+suite=allreduce", "+suite=allreduce"),
        ("-m", "-m"),
        ("+backend.env.A=1e3", "+backend.env.A='1e3'"),
        ("++backend.env.A=0.10", "++backend.env.A='0.10'"),
        ("backend.env.A=true", "backend.env.A='true'"),
        ("+backend.env.A=INFO", "+backend.env.A=INFO"),
        ("+backend.env.A='x,y'", "+backend.env.A='x,y'"),
    ],
)
def test_values_are_spelled_out(typed, given):
    assert normalize_override(typed) == given
