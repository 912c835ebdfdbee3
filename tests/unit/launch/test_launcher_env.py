import os

import pytest
from launch.launcher_env import (
    LaunchContext,
    LaunchError,
    allocation_remark,
    detect_launcher,
    num_hosts,
    require_launcher,
)

BATCH = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_NNODES": "2"}
STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}
OPENMPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
MPICH = {"MPI_LOCALNRANKS": "2", "PMI_RANK": "1", "PMI_SIZE": "4"}
MASTER = {"MASTER_ADDR": "n1", "MASTER_PORT": "29500"}
LWS = {"LWS_WORKER_INDEX": "1", "LWS_GROUP_SIZE": "2"}
ARRAY = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "4", "SLURM_NODEID": "0"}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "RANK": "3", "WORLD_SIZE": "8"}

ORDINARY = {  # of containers and scripts, which number and count something else
    "GROUP_ID": "1", "USER_ID": "1", "TASK_ID": "1", "WORKER_ID": "1", "INDEX": "1", "HOST_ID": "1",
    "NPROC": "8", "NPROCS": "8", "NUM_WORKERS": "4", "NUM_TASKS": "4", "HOSTS": "a,b", "GROUP_SIZE": "4",
    "GPU_INDEX": "1", "GPU_ID": "1", "GPU_COUNT": "4", "MIG_INDEX": "1", "MIG_COUNT": "4", "K_INDEX": "0",
    "K_COUNT": "4", "FAISS_INDEX": "1", "FAISS_SIZE": "9", "LLM_INDEX": "0", "LLM_SIZE": "70",
}  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, LaunchContext("plain", 0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4"}, LaunchContext("plain", 0, 1)),  # left by somebody
        (
            {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "2", "RANK": "1", "WORLD_SIZE": "4"},
            LaunchContext("torchrun", 1, 4, "none.2"),
        ),
        (
            {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "PMIX_NAMESPACE": "77"},
            LaunchContext("openmpi", 1, 2, "77"),
        ),
        (MPICH | {"PMI_SIZE": "2"}, LaunchContext("mpich", 1, 2, f"parent-{os.getppid()}", is_one_host=True)),
        (MPICH, LaunchContext("mpich", 1, 4, "")),  # two hosts
        (STEP | {"PMI_RANK": "1", "PMI_SIZE": "2"}, LaunchContext("srun", 1, 2, "7.0")),
        (STEP | MPICH, LaunchContext("mpich", 1, 4, "7.0")),  # its daemons are a step of their own, one task per node
        (BATCH, LaunchContext("plain", 0, 1)),
        ({"RANK": "1", "WORLD_SIZE": "2"} | MASTER, LaunchContext("env", 1, 2)),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"} | MASTER,
            LaunchContext("env", 1, 2, is_one_host=True),
        ),
        (
            {"FLUX_JOB_ID": "f2xK", "FLUX_TASK_RANK": "1", "FLUX_JOB_SIZE": "2", "PMI_RANK": "1", "PMI_SIZE": "2"},
            LaunchContext("flux", 1, 2, "f2xK"),
        ),
        (
            {"PALS_APID": "7c1", "PALS_RANKID": "1", "PMI_RANK": "1", "PMI_SIZE": "2", "PMI_LOCAL_SIZE": "2"},
            LaunchContext("pals", 1, 2, "7c1", is_one_host=True),
        ),
        (
            {"LSB_JOBID": "9", "JSM_NAMESPACE_RANK": "1", "JSM_NAMESPACE_SIZE": "2", "PMIX_RANK": "1"},
            LaunchContext("jsrun", 1, 2, "9"),
        ),
        (
            {"SKYPILOT_TASK_ID": "sky-1", "SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "2"},
            LaunchContext("skypilot", 1, 2, "sky-1"),
        ),
        ({"JOB_COMPLETION_INDEX": "1", "WORLD_SIZE": "2"} | MASTER, LaunchContext("indexed_job", 1, 2)),
    ],
)  # fmt: skip
def test_detect_launcher_reads_environment(environment, expected):
    assert detect_launcher(environment) == expected


@pytest.mark.parametrize(
    ("environment", "hosts"),
    [
        ({"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}, 1),
        ({"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, 2),
        ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 1),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, 4),
        ({"MPI_LOCALNRANKS": "2", "PMI_SIZE": "4"}, 2),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2"}, 1),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}, 2),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_TASKS_PER_NODE": "2,1"}, 2),
    ],
)
def test_launcher_says_over_how_many_hosts_it_started(environment, hosts):
    assert num_hosts(environment) == hosts
    assert detect_launcher(environment).is_one_host is (hosts == 1)


def test_plain_start_is_on_one_host():
    assert num_hosts({}) == 1


@pytest.mark.parametrize(
    "environment",
    [
        {"RANK": "0", "WORLD_SIZE": "2"},
        {"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2", "PMI_RANK": "0", "PMI_SIZE": "2"},
        {"PALS_RANKID": "0", "PMI_RANK": "0", "PMI_SIZE": "2"},
        {"JSM_NAMESPACE_RANK": "0", "JSM_NAMESPACE_SIZE": "2"},
        {"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "2"},
        {"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2"},
        {"PET_NODE_RANK": "0", "PET_NNODES": "2"},
        {"PMI_RANK": "0", "PMI_SIZE": "2"},
        # an index above 0 without a count, or a count above 1 without an index
        {"RANK": "1"},
        {"PMIX_RANK": "1"},
        {"JOB_COMPLETION_INDEX": "1"},
        {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1"},
        {"OMPI_COMM_WORLD_RANK": "1"},
        {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2"},
        # no index and count
        STEP | {"SLURM_PROCID": ""},
        STEP | {"SLURM_PROCID": "2"},
        STEP | {"SLURM_STEP_NUM_TASKS": "two\n"},
        {"RANK": "0", "WORLD_SIZE": "0"},
        {"RANK": "1" * 5000, "WORLD_SIZE": "2"},
        {"RANK": "\udcff", "WORLD_SIZE": "²"},
        # two of one level, or an inner one that does not join, which differ
        OPENMPI | {"MPI_LOCALNRANKS": "2", "PMI_RANK": "0", "PMI_SIZE": "4"},
        OPENMPI | {"PMIX_RANK": "2"},
        STEP | {"RANK": "5", "WORLD_SIZE": "16"},
        STEP | {"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2"},
        {"BENCHKIT_ALONE": "yes"},
        # launchers of which no table knows
        {"LWS_WORKER_INDEX": "0", "LWS_GROUP_SIZE": "2", "LWS_LEADER_ADDRESS": "lws-0"},
        {"NODE_RANK": "0", "WORLD_SIZE": "2"} | MASTER,  # Lightning, Azure
        {"NODE_RANK": "1", "NNODES": "2"},
        {"NODE_RANK": "0", "NUM_NODES": "2", "PRIMARY_ADDR": "10.0.0.1"},  # RunPod
        {"VC_TASK_INDEX": "0", "VC_WORKER_NUM": "2", "VC_WORKER_HOSTS": "w-0.job,w-1.job"},  # Volcano
        {"VC_TASK_INDEX": "0", "VC_MPIWORKER_HOSTS": "w-0.job,w-1.job"},
        {"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": "0"},
        {"SM_CURRENT_HOST": "algo-1", "SM_HOSTS": '["algo-1","algo-2\udcff"]', "SM_NUM_GPUS": "8"},  # SageMaker
        {"AWS_BATCH_JOB_NODE_INDEX": "0", "AWS_BATCH_JOB_NUM_NODES": "2", "AWS_BATCH_JOB_MAIN_NODE_INDEX": "0"},
        {"BATCH_TASK_INDEX": "0", "BATCH_TASK_COUNT": "4"},  # Google's Batch
        {"CLOUD_RUN_TASK_INDEX": "3", "CLOUD_RUN_TASK_COUNT": "4"},
        {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "t-0,t-1"},
        {"MEGASCALE_SLICE_ID": "0", "MEGASCALE_NUM_SLICES": "2"},
        {"BEAKER_REPLICA_RANK": "0", "BEAKER_REPLICA_COUNT": "2"},
        {"MF_PARALLEL_NODE_INDEX": "0", "MF_PARALLEL_NUM_NODES": "2"},  # Metaflow
        {"LEPTON_JOB_WORKER_INDEX": "0", "LEPTON_JOB_TOTAL_WORKERS": "2"},
        {"DSTACK_NODE_RANK": "0", "DSTACK_NODES_NUM": "2", "DSTACK_GPUS_NUM": "16"},
        {"MPIRUN_RANK": "0", "MPIRUN_NPROCS": "2"},  # MVAPICH
        {"MPT_MPI_RANK": "0", "MPT_MPI_SIZE": "2"},
        {"_CONDOR_PROCNO": "0", "_CONDOR_NPROCS": "2"},
        BATCH | {"LWS_WORKER_INDEX": "0", "LWS_GROUP_SIZE": "2"},
    ],
)
def test_launcher_in_doubt_is_refused(environment):
    with pytest.raises(LaunchError) as refused:
        require_launcher(environment)
    message = str(refused.value)
    assert "\n" not in message
    assert message.encode()
    assert "BENCHKIT_ALONE" in message
    assert any(name in message for name in environment)
    assert detect_launcher(environment)  # what says so never fails
    assert require_launcher(environment | {"BENCHKIT_ALONE": "1"}) == LaunchContext("plain", 0, 1)


@pytest.mark.parametrize(
    ("environment", "by"),
    [
        ({}, "plain"),
        ({"RANK": "0", "WORLD_SIZE": "1", "PMI_RANK": "0", "PMI_SIZE": "1"}, "plain"),
        ({"WORLD_SIZE": "16"}, "plain"),
        ({"JOB_COMPLETION_INDEX": "0", "SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "1"}, "plain"),
        (BATCH, "plain"),
        (STEP | {"PMI_RANK": "1", "PMI_SIZE": "2", "PMIX_RANK": "1", "RANK": "1", "WORLD_SIZE": "2"}, "srun"),
        (BATCH | OPENMPI | {"PMIX_RANK": "1"}, "openmpi"),
        (STEP | OPENMPI | {"PMI_RANK": "1", "PMI_SIZE": "2"}, "openmpi"),  # srun started its daemons, with PMI
        (OPENMPI | {"JSM_NAMESPACE_RANK": "1", "JSM_NAMESPACE_SIZE": "4"}, "openmpi"),
        (OPENMPI | {"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2"}, "openmpi"),
        (STEP | {"SLURM_PROCID": "0"} | MPICH, "mpich"),
        (STEP | TORCHRUN, "torchrun"),
        (OPENMPI | TORCHRUN | {"PMI_RANK": "x"}, "torchrun"),
        ({"PET_NODE_RANK": "1", "PET_NNODES": "1:2", "JOB_COMPLETION_INDEX": "1"} | TORCHRUN, "torchrun"),
        (LWS | TORCHRUN, "torchrun"),
        (LWS | {"RANK": "1", "WORLD_SIZE": "2"} | MASTER, "env"),
        (STEP | {"NODE_RANK": "1", "NNODES": "4"}, "srun"),
        # one of one, or no two of one launcher
        ({"LWS_WORKER_INDEX": "0", "LWS_GROUP_SIZE": "1"}, "plain"),
        ({"SM_CURRENT_HOST": "algo-1", "SM_HOSTS": '["algo-1"]', "SM_NUM_GPUS": "8"}, "plain"),
        ({"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}, "plain"),
        ({"NODE_RANK": "0", "NNODES": "1", "BATCH_SIZE": "16"}, "plain"),
        ({"HOROVOD_RANK": "0", "NNODES": "2"}, "plain"),
        ({"NODE_NAME": "n1", "NODE_IP": "10.0.0.1", "POD_NAME": "bench-1", "HOSTNAME": "bench-1"}, "plain"),
        ({"NODE_NAME": "n1", "NNODES": "2", "WORLD_SIZE": "2"} | MASTER, "plain"),  # exported in a shell
        # what counts other things than processes that measure together
        (ARRAY | BATCH, "plain"),
        ({"AWS_BATCH_JOB_ARRAY_INDEX": "1", "AWS_BATCH_JOB_ARRAY_SIZE": "4", "PBS_ARRAY_INDEX": "1"}, "plain"),
        ({"SGE_TASK_ID": "undefined", "NHOSTS": "2", "NSLOTS": "8", "JOB_ID": "7"}, "plain"),
        ({"PBS_NODENUM": "0", "PBS_TASKNUM": "1", "PBS_NUM_NODES": "2", "PBS_NP": "8"}, "plain"),
        ({"LSB_JOBINDEX": "0", "LSB_HOSTS": "n1 n2", "LSB_DJOB_NUMPROC": "2"}, "plain"),
        ({"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "4", "CIRCLE_NODE_INDEX": "1", "CIRCLE_NODE_TOTAL": "4"}, "plain"),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_LOCAL_SIZE": "2"}, "plain"),
        ({"GPU_INDEX": "1", "GPU_NUM": "8", "GPU_CACHE_SIZE": "4", "OMP_NUM_THREADS": "4"}, "plain"),
        ({"UV_INDEX": "https://pypi.org", "UV_HOSTS": "a,b", "PIP_INDEX_URL": "https://pypi.org"}, "plain"),
        ({"TASK_ID": "7f3c-1", "NNODES": "2"}, "plain"),
        (ORDINARY, "plain"),
        (ORDINARY | {"RANK": "0", "WORLD_SIZE": "1"}, "plain"),
        ({"NODE_RANK": "2", "NNODES": "2", "AZ_BATCH_TASK_ID": "7", "AZ_BATCH_NODE_COUNT": "4"}, "plain"),
        ({"TPU_WORKER_ID": "2", "TPU_WORKER_HOSTNAMES": "t-0,t-1"}, "plain"),
    ],
)
def test_innermost_launcher_counts(environment, by):
    assert require_launcher(environment) == detect_launcher(environment)
    assert require_launcher(environment).launcher == by


def test_one_process_in_an_allocation_says_so():
    salloc = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"}
    assert all("7" in allocation_remark(each) for each in (BATCH, salloc))
    assert not any(map(allocation_remark, (STEP, BATCH | OPENMPI, {})))
