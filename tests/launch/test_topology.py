import pytest

from launch.topology import Started, started


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Started("nobody", 0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4"}, Started("nobody", 0, 1)),  # somebody's leftovers
        ({"TORCHELASTIC_RUN_ID": "none", "RANK": "1", "WORLD_SIZE": "4"}, Started("torchrun", 1, 4)),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, Started("mpirun (Open MPI)", 1, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, Started("mpirun (MPICH)", 1, 2)),
        (
            {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "3", "PMI_RANK": "1", "PMI_SIZE": "3"},
            Started("srun", 1, 3),
        ),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, Started("nobody", 0, 1)),  # a batch script
    ],
)
def test_who_started_us(environment, expected):
    assert started(environment) == expected
