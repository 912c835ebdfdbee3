"""The same program on one device and on several: exact operands, every plan on real ranks, the suite as a whole."""

from itertools import pairwise

import pytest
import torch
from benchkit.api.drawing import size_of
from benchkit.errors import InvalidResult
from benchkit.suites.auto_shard.planner import LAYOUTS, REPLICATED
from benchkit.suites.auto_shard.program import NONZEROS, ExactIntegers, Random, part_of, shard, unseen_devices
from benchkit.suites.auto_shard.suite import MOST_LAYERS
from benchkit.suites.auto_shard.workloads import Kind, parse

from tests.support import auto_shard_bodies as bodies
from tests.support import fakes
from tests.support.cli import Cli
from tests.support.ranks import run_ranks

CPU = torch.device("cpu")
QUICK = ["measure=few"]


pytestmark = pytest.mark.usefixtures("fork_server")


def on_ranks(body, tasks, folder):
    """What each rank returned."""
    outcome = run_ranks(
        f"tests.support.auto_shard_bodies:{body}", [(*task, str(folder / "meeting")) for task in tasks],
        environments=[{"OMP_NUM_THREADS": "1"}] * len(tasks), folder=folder, timeout_s=300,
    )  # fmt: skip
    assert outcome.failure is None, outcome.failure
    return [outcome.results[rank] for rank in range(len(tasks))]


def everything(shape):
    return part_of(shape, REPLICATED, 1, 0)


def multiplied(exact):
    """The result of exact operands by multiplying matrices, in float64."""
    workload = exact.workload
    x = exact(0, everything((workload.rows, workload.widths[0]))).double()
    if not workload.weights:
        return 2 * x.relu()
    for number, shape in enumerate(workload.weights, 1):
        x = x @ exact(number, everything(shape)).double()
        x = x.relu() if workload.kind == Kind.MLP else x
    return x


@pytest.mark.parametrize(
    ("name", "dtype"), [("matmul_7x9x5", torch.bfloat16), ("mlp_6x5x8x7", torch.float32), ("relu_5x7", torch.bfloat16)]
)
def test_exact_result_matches_matmul(name, dtype):
    exact = ExactIntegers(parse(name), CPU, dtype, seed=1, turn=2)
    expected = multiplied(exact)
    assert torch.equal(exact.result(everything(expected.shape)).double(), expected)
    assert expected.abs().max() > 0
    part = (slice(1, 4), slice(2, 5))
    assert torch.equal(exact.result(part).double(), expected[part])
    other = ExactIntegers(parse(name), CPU, dtype, seed=1, turn=3)
    assert not torch.equal(multiplied(other), expected)


@pytest.mark.parametrize("dtype", MOST_LAYERS)
def test_deepest_mlp_is_exact(dtype):
    kind = getattr(torch, dtype)
    assert 2 * NONZEROS ** MOST_LAYERS[dtype] <= 2 / torch.finfo(kind).eps
    assert 2 * NONZEROS ** (1 + MOST_LAYERS[dtype]) > 2 / torch.finfo(kind).eps
    for seed in range(5):
        deepest = parse("mlp_" + "x".join(["64"] * (2 + MOST_LAYERS[dtype])))
        exact = ExactIntegers(deepest, CPU, kind, seed=seed, turn=0)
        result = exact.result(everything((64, 64)))
        assert (result != 0).double().mean() > 0.3
        assert torch.equal(result.double(), multiplied(exact))


def test_lost_shard_usually_changes_scalar_output():
    """But where what is lost adds up to zero, as one sum in some fourteen does; each case is checked twice."""
    missed = 0
    for seed in range(100):
        exact = ExactIntegers(parse("matmul_1x4096x1"), CPU, torch.float32, seed=seed, turn=0)
        x, w = exact(0, everything((1, 4096))), exact(1, everything((4096, 1)))
        missed += torch.equal(x[:, :3072] @ w[:3072], exact.result(everything((1, 1))))
    assert missed <= 15


@pytest.mark.parametrize(
    ("name", "devices"), [("matmul_8x512x512", 512), ("mlp_8x96x80x96", 60), ("matmul_8x4096x3", 94)]
)
def test_each_device_shows_in_an_exact_weight(name, devices):
    """Its rows have a nonzero, so its part of a product is not zero."""
    workload = parse(name)
    assert not unseen_devices(workload, devices)
    for operand, (inner, _) in enumerate(workload.weights, start=1):
        index, _ = ExactIntegers(workload, CPU, torch.float32, seed=1, turn=2).nonzeros(operand)
        for device in range(devices):
            rows = shard(inner, devices, device)
            assert rows.start == rows.stop or ((index >= rows.start) & (index < rows.stop)).any()


def test_weights_of_too_few_entries_for_the_devices_are_named():
    assert unseen_devices(parse("matmul_1x4096x1"), 31) == ""
    assert "63 elements of a weight are checked, of 32 devices" in unseen_devices(parse("matmul_1x4096x1"), 32)
    assert unseen_devices(parse("relu_8x8"), 4096) == ""


def test_float64_is_compared_in_float64():
    exact = ExactIntegers(parse("matmul_4x8x8"), CPU, torch.float64, seed=1, turn=0)
    output = exact.result(everything((4, 8)))
    output[output != 0] *= 1 + 1e-12
    with pytest.raises(InvalidResult):
        exact.require(output, everything((4, 8)))


def test_require_names_wrong_element():
    exact = ExactIntegers(parse("matmul_7x9x5"), CPU, torch.float32, seed=1, turn=2)
    part = (slice(3, 7), slice(0, 5))
    output = exact.result(part)
    exact.require(output, part)
    output[1, 2] += 1
    with pytest.raises(InvalidResult, match=r"\[4, 2\].*1 of 20"):
        exact.require(output, part)
    with pytest.raises(InvalidResult, match="element"):
        exact.require(torch.full_like(output, float("nan")), part)
    with pytest.raises(InvalidResult, match=r"\(3, 5\)"):
        exact.require(output[:3], part)


@pytest.mark.parametrize("length", [1, 7, 16])
@pytest.mark.parametrize("devices", [1, 3, 4])
def test_shards_match_torch_chunk(length, devices):
    chunks = [len(chunk) for chunk in torch.arange(length).chunk(devices)]
    chunks += [0] * (devices - len(chunks))
    found = [shard(length, devices, index) for index in range(devices)]
    assert [each.stop - each.start for each in found] == chunks
    assert all(one.stop == other.start for one, other in pairwise(found))
    for layout in LAYOUTS:
        sizes = [size_of(part_of((length, 3), layout, devices, index)) for index in range(devices)]
        total = sum(rows * columns for rows, columns in sizes)
        assert total == 3 * length * (devices if layout == REPLICATED else 1)


def test_random_scales_mlp_weights():
    generator = torch.Generator().manual_seed(0)
    drawn = Random(parse("mlp_4x1024x64"), generator, torch.float32)(1, everything((1024, 64)))
    assert drawn.std().item() == pytest.approx(1 / 32, rel=0.05)
    created = Random(parse("matmul_4x1024x64"), generator, torch.float32)(1, everything((1024, 64)))
    assert created.std().item() == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("name", ["matmul_7x9x5", "mlp_6x5x8x7", "relu_5x7"])
def test_one_device_passes_verification(name):
    for end_to_end in (False, True):
        fakes.verify(bodies.alone(name, end_to_end))


@pytest.mark.parametrize(
    ("name", "world_size"),
    [
        ("mlp_5x4x6x3", 2),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("matmul_9x8x7", 3), ("relu_3x8", 4), ("mlp_7x5x6", 2), ("relu_5x2", 4))
        ),
    ],
)
def test_every_plan_matches_one_device(name, world_size, tmp_path):
    """All layouts and moves there are, with ragged and with empty shards."""
    found = on_ranks("every_plan", [(name, rank, world_size) for rank in range(world_size)], tmp_path)
    assert found == [[]] * world_size


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "world_size"),
    [("matmul_9x8x7", 3), ("matmul_6x9x5", 3), ("mlp_8x6x4x2", 2), ("relu_4x3", 2), ("relu_5x3", 2)],
)
def test_dispatcher_matches_one_device(name, world_size, tmp_path):
    found = on_ranks("dispatched", [(name, rank, world_size) for rank in range(world_size)], tmp_path)
    assert found == [[]] * world_size


@pytest.mark.slow
def test_costs_follow_slowest_device(tmp_path):
    """Call i takes 2 i ms on the slower: 7 moves and 2 fetches in two sizes each, a product, creating, touching."""
    found = on_ranks("measured", [(rank, 3) for rank in range(3)], tmp_path)
    assert found[0] == found[1] == found[2]
    per_byte = 2e-3 / (4 * (256**2 - 64**2))
    assert found[0]["per_byte"] == pytest.approx([per_byte] * 9)
    latencies = [max(0.0, 4e-3 * index - per_byte * 4 * 64**2) for index in range(9)]
    assert found[0]["latencies"] == pytest.approx(latencies)
    assert found[0]["rates"] == pytest.approx((36e-3 / (2 * 50 * 128 * 64), 38e-3 / (50 * 64), 40e-3 / (50 * 64)))


@pytest.mark.slow  # planted truth holds its ratios in `make test`
def test_job_uses_one_device_as_baseline(cli: Cli):
    done = cli("+suite=auto_shard", "devices=[1,2,3]", "workload=mlp_66x40x56x24", "explain=true", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    assert [case["status"] for case in record["cases"]] == ["ok"] * 16, done.stdout
    labels = {tuple(case["labels"].values()): case for case in record["cases"]}
    for scope in ("resident", "end_to_end"):
        base = labels["none", 1, scope]
        assert base["baseline"] is None
        for count in (2, 3):
            for sharding in ("auto", "axis0", "dispatcher"):
                case = labels[sharding, count, scope]
                assert (record["cases"][case["baseline"]], case["ranks"]) == (base, count)
                assert case["useful_flops"] == base["useful_flops"]
                assert "plan" in case["details"]
                phases = {"create", "compute", "communicate", "fetch"}
                assert set(case["regions_s"]) == (phases if scope == "end_to_end" else {"compute", "communicate"})
    assert labels["independent", 3, "resident"]["useful_flops"] == 3 * base["useful_flops"]
    assert "plan:" in done.stdout
    assert "alternatives:" in done.stdout


SEEN = {
    "swapped": {"axis0 2", "dispatcher 2"},
    "lost": {"axis0 2"},  # the dispatcher sends bytes, which are not lost
    "stale": {"none 1", "auto 2", "axis0 2", "dispatcher 2"},
}


@pytest.mark.slow
def test_faults_invalidate_affected_cases(cli: Cli):
    cli.environment["BENCHKIT_SUITES"] = "tests.support.broken"
    done = cli("+suite=auto_shard", "workload=matmul_64x48x32", f"fault={','.join(SEEN)}", *QUICK)
    assert done.returncode == 1, done.stdout + done.stderr
    for record in cli.records():
        wrong = SEEN[record["config"]["fault"]]
        for case in record["cases"]:
            name = "{sharding} {ranks}".format(**case["labels"])
            if case["labels"]["scope"] == "end_to_end":
                assert case["status"] == ("invalid" if name in wrong else "ok"), (record["overrides"], name)
