"""What a suite may know of its rank."""

import pytest
import torch
from benchkit.api.case import Rank


def rank(device, **memory):
    unused = {"index": 0, "world_size": 2, "seed": 0, "memory": None, "shares": (), "seconds_of": None, "group": None}
    return Rank(**unused, device=torch.device(device), **memory)


@pytest.mark.parametrize(
    ("device", "needed_bytes", "said"),
    [
        ("cpu", (3e9, 1e9), ""),
        ("cpu", (3e9, 2e9), "needs 2 ranks x 5 GB, 8 GB there"),
        ("cuda", (4e9, 5e9), ""),
        ("cuda", (5e9, 5e9), "needs 2 ranks x 5 GB, 8 GB there"),
        ("cuda", (4e9, 6e9), "needs 4 ranks x 6 GB of host memory, 20 GB there"),
    ],
)
def test_host_and_gpu_memory_are_apart(device, needed_bytes, said):
    memory = {"sharers": 2, "available_bytes": 8e9, "host_sharers": 4, "host_available_bytes": 20e9}
    assert rank(device, **memory).memory_shortage(*needed_bytes) == said
