"""The language model: against another's code, its definition, one rank against several, and what is counted of it."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from benchkit.api.keys import ModelConfig, count_parameters
from benchkit.api.lut import entry_of
from benchkit.errors import ConfigError, InvalidResult
from benchkit.suites.transformer import cases, checks, passes, peak_flops
from benchkit.suites.transformer import model as kernels
from benchkit.suites.transformer import model as network
from benchkit.suites.transformer.checks import TOKENS, Checks, gradients_of, inputs_of, loss_of, mask_targets
from benchkit.suites.transformer.data import Batches, check_ids
from benchkit.suites.transformer.model import Network, build
from benchkit.suites.transformer.passes import Steps
from benchkit.suites.transformer.suite import Footprint, TransformerConfig, forward_flops, pass_flops, recomputed_flops
from torch.utils.flop_counter import FlopCounterMode

from tests.support import transformer_bodies as bodies
from tests.support.cli import Cli
from tests.support.configs import made
from tests.support.ranks import run_ranks

pytestmark = pytest.mark.usefixtures("fork_server")
CPU = torch.device("cpu")
SMALL = ModelConfig(name="small", d_model=768, d_ff=3072, num_layers=12, num_heads=12, vocab_size=10000)
MIDDLE = ModelConfig(name="middle", d_model=64, d_ff=192, num_layers=4, num_heads=4, vocab_size=500)


def on_meta(model: ModelConfig, **options: bool) -> Network:
    with torch.device("meta"):
        return Network(model, **options)


@pytest.mark.parametrize("kind", ["ddp", "fsdp", "tp"])
def test_two_ranks_match_one_on_joint_batch(kind, tmp_path):
    tasks = [(kind, rank, 2, str(tmp_path / "meeting")) for rank in range(2)]
    outcome = run_ranks(
        "tests.support.transformer_bodies:shared_out", tasks, environments=[{}, {}], folder=tmp_path, timeout_s=120
    )
    assert outcome.failure is None, outcome.failure
    alone = bodies.network()
    expected = bodies.two_steps(Steps(alone, alone), *bodies.batch(4))
    losses = [outcome.results[rank]["loss"] for rank in range(2)]
    assert np.mean(losses) == pytest.approx(expected["loss"], rel=1e-5)
    assert kind != "tp" or losses[0] == losses[1]
    for found in outcome.results.values():
        for what in ("gradients", "weights"):
            for name, values in expected[what].items():
                np.testing.assert_allclose(found[what][name], values, rtol=1e-3, atol=2e-6, err_msg=f"{what} {name}")


def checked(break_network=lambda each: None, **options: bool) -> Checks:
    """A network with 80 tokens of context, broken if wanted, and what checks it."""
    made = build(lambda: Network(MIDDLE, **options), torch.float32, CPU, 0)
    break_network(made)
    return Checks(Steps(made, made), "float32")


def check_forward(checking: Checks, inputs: torch.Tensor) -> None:
    checking.forward(checking.steps.forward(inputs), inputs)


def check_gradients(checking: Checks, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    mask_targets(targets)
    checking.gradients(checking.steps.forward_backward(inputs, targets), inputs, targets)


def drawn(rows: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    batches = Batches(rows, 80, MIDDLE.vocab_size, None, CPU, 1)
    return batches.inputs, batches.targets


@pytest.mark.parametrize("options", [{}, {"naive": True}, {"checkpointing": True}])
def test_correct_network_passes_checks(options):
    checking = checked(**options)
    for _ in range(2):
        check_forward(checking, drawn()[0])
        check_gradients(checking, *drawn())
        checking.update(*drawn())


BREAKS = {
    "positions": (network, "rotate", lambda x, cos, sin: x),
    "a later token": (F, "scaled_dot_product_attention", lambda q, k, v, is_causal: (q @ k.mT).softmax(-1) @ v),
    "the gate": (F, "silu", torch.relu),
    "the norms": (torch.nn.RMSNorm, "forward", lambda self, x: x * self.weight),
}


@pytest.mark.parametrize("name", BREAKS)
def test_logits_check_finds_broken_network(name, monkeypatch):
    monkeypatch.setattr(*BREAKS[name])
    with pytest.raises(InvalidResult, match="logits"):
        check_forward(checked(), drawn()[0])


def test_checks_reject_nan_logits():
    def poison(made: Network) -> None:
        made.register_forward_hook(lambda module, inputs, logits: logits * float("nan"))

    with pytest.raises(InvalidResult, match=r"token 0 .*inf"):
        check_forward(checked(poison), drawn()[0])


def scaled(weight: torch.nn.Parameter, factor: float) -> None:
    weight.register_hook(lambda gradient: gradient * factor)


@pytest.mark.parametrize(
    ("break_network", "said"),
    [
        (lambda made: scaled(made.head.weight, 1.05), "head.weight: .* 0.05"),
        (lambda made: scaled(made.embedding.weight, 0.5), "embedding.weight: .* 0.5"),
        (lambda made: scaled(made.layers[2].attention.key.weight, -1.0), "attention.key.weight: .* 2"),
        (lambda made: made.norm.weight.requires_grad_(False), "norm.weight: .* 1"),
    ],
)
def test_wrong_gradient_is_found(break_network, said):
    with pytest.raises(InvalidResult, match=said):
        check_gradients(checked(break_network), *drawn())


SHALLOW = ModelConfig(name="shallow", d_model=32, d_ff=64, num_layers=1, num_heads=2, vocab_size=500)
COPIES = 150


@pytest.fixture(scope="module")
def of_many_ranks():
    """A bfloat16 model with the gradients of many ranks: as it computes them, and exact."""
    made = build(lambda: Network(SHALLOW), torch.bfloat16, CPU, 0)
    steps = Steps(made, made)
    computed, exact, batches = (
        [],
        [],
        [Batches(1, 80, SHALLOW.vocab_size, None, CPU, rank) for rank in range(COPIES + 1)],
    )
    for batch in batches:
        mask_targets(batch.targets)
        steps.forward_backward(batch.inputs, batch.targets)
        computed.append([weight.grad.clone() for weight in made.parameters()])
        stages = inputs_of(made, batch.inputs[0, :TOKENS])
        exact.append([each for _, each in gradients_of(made, stages, batch.targets[0, :TOKENS])])
    return steps, batches, computed, exact


@pytest.mark.parametrize(
    ("taken", "is_right"),
    [([0, 1], True), ([1], False), ([0, 0, 1], False), ([COPIES, 1], False)],
    ids=["right", "missing", "doubled", "of another batch"],
)
def test_part_of_one_rank_of_many_is_checked(of_many_ranks, taken, is_right):
    """What one of 150 ranks adds is less than bfloat16 may be off by."""
    steps, batches, computed, exact = of_many_ranks
    ranks = [*taken, *range(2, COPIES)]
    for number, weight in enumerate(steps.network.parameters()):
        weight.grad = sum(computed[rank][number] / COPIES for rank in ranks)
    means = iter([sum(parts) / COPIES for parts in zip(*exact[:COPIES], strict=True)])
    checking = Checks(steps, "bfloat16", lambda value: next(means), copies=COPIES)
    inputs, targets = batches[0].inputs, batches[0].targets
    loss = loss_of(inputs_of(steps.network, inputs[0, :TOKENS])[-1], targets[0, :TOKENS])
    with nullcontext() if is_right else pytest.raises(InvalidResult, match="this rank's part"):
        checking.gradients(loss, inputs, targets)


@pytest.mark.parametrize(
    ("reduced", "gathered", "is_right"), [((0, 1), (0, 1), True), ((1,), (0, 1), False), ((1,), (1,), False)]
)
def test_expected_mean_without_a_rank_is_found(monkeypatch, reduced, gathered, is_right):
    """By a projection of each part, which a second collective carries."""
    parts = [torch.randn(50, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(rank)) for rank in (0, 1)]
    parts = [each - each.mean() for each in parts]  # as the gradient by a head, whose sum is 0

    def gather(into, mine):
        into.zero_()
        for rank in gathered:
            into[rank] = checks.projection(parts[rank])

    monkeypatch.setattr(checks.dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(checks.dist, "get_rank", lambda: 0)
    monkeypatch.setattr(checks.dist, "all_reduce", lambda total: total.copy_(sum(parts[rank] for rank in reduced)))
    monkeypatch.setattr(checks.dist, "all_gather_into_tensor", gather)
    found = checks.average_over_ranks(parts[0])
    assert torch.equal(found, (parts[0] + parts[1]) / 2) if is_right else found.isnan().all()


@pytest.mark.parametrize(
    ("parallel", "dtype", "ranks", "said"),
    [
        ("tp", "bfloat16", 12, ["the optimizer's update", "whether a rank"]),
        ("tp", "float32", 4096, ["the optimizer's update"]),
        ("ddp", "bfloat16", 4096, ["the optimizer's update"]),
    ],
)
def test_step_says_what_its_check_does_not_see(parallel, dtype, ranks, said):
    config = SimpleNamespace(parallel=parallel, dtype=dtype)
    job = SimpleNamespace(config=config, shared=True, model=MIDDLE, rank=SimpleNamespace(world_size=ranks))
    unseen = cases.TransformerJob.describe_unchecked(job, "train_step", on_one_rank=False).split("; ")
    assert [found[: len(wanted)] for found, wanted in zip(unseen, said, strict=True)] == said


def test_wrong_loss_is_found(monkeypatch):
    right = F.cross_entropy
    monkeypatch.setattr(passes.F, "cross_entropy", lambda *given, **named: 1.01 * right(*given, **named))
    with pytest.raises(InvalidResult, match=r"loss: .*0\.01"):
        check_gradients(checked(), *drawn())


@pytest.mark.parametrize("wrong", [{"lr": 2e-4}, {"weight_decay": 10.0}, {"betas": (0.5, 0.5)}])
def test_wrong_update_rule_is_found(wrong, monkeypatch):
    checking = checked()
    checking.update(*drawn())  # the state is not zero any more
    optimizer = checking.steps.optimizer
    right = optimizer.step

    def step() -> None:
        stated = {name: optimizer.param_groups[0][name] for name in wrong}
        optimizer.param_groups[0].update(wrong)
        right()
        optimizer.param_groups[0].update(stated)

    monkeypatch.setattr(optimizer, "step", step)
    with pytest.raises(InvalidResult, match=r"element \d+"):
        checking.update(*drawn())


def test_parameters_and_flops_match_network():
    made = on_meta(SMALL, naive=True)
    assert sum(weight.numel() for weight in made.parameters()) == count_parameters(SMALL) == 128_625_408
    tokens = torch.zeros(2, 128, dtype=torch.long, device="meta")
    forward = forward_flops(SMALL, 2, 128, causal=False)
    with FlopCounterMode(display=False) as counter:
        logits = made(tokens)
    assert counter.get_total_flops() == forward
    with FlopCounterMode(display=False) as counter:
        logits.sum().backward()
    assert counter.get_total_flops() == 2 * forward == pass_flops("train_step", forward) - forward


def test_checkpointing_recomputes_all_but_head():
    made = on_meta(SMALL, naive=True, checkpointing=True)
    tokens = torch.zeros(2, 128, dtype=torch.long, device="meta")
    forward = forward_flops(SMALL, 2, 128, causal=False)
    logits = made(tokens)
    with FlopCounterMode(display=False) as counter:
        logits.sum().backward()
    assert counter.get_total_flops() - 2 * forward == recomputed_flops(SMALL, 2, 128, causal=False)


def test_causal_attention_costs_over_half():
    whole, causal = (forward_flops(SMALL, 1, 1024, causal=each) for each in (False, True))
    attention = SMALL.num_layers * 4 * SMALL.d_model * 1024**2
    assert whole - causal == pytest.approx(attention * (1 - 1025 / 2048))


@pytest.mark.parametrize("options", [{}, {"naive": True}, {"checkpointing": True}])
def test_footprint_matches_saved_tensors(options):
    model = ModelConfig(name="middle", d_model=128, d_ff=512, num_layers=6, num_heads=4, vocab_size=1000)
    made = build(lambda: Network(model, **options), torch.float32, CPU, 0)
    weights = {weight.untyped_storage().data_ptr() for weight in made.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    batches = Batches(4, 128, model.vocab_size, None, CPU, 1)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        logits = made(batches.inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), batches.targets.flatten())
    saved = sum(kept.values()) + 2 * logits.nbytes  # the logits themselves, and their gradient
    assert loss.isfinite()
    footprint = Footprint(model, 4, 128, 4, 4, options.get("naive", False), options.get("checkpointing", False))
    if options.get("checkpointing"):  # the layer that is computed again adds its own, which is not seen here
        whole = Footprint(model, 4, 128, 4, 4)
        saved += (whole.saved_bytes() - whole.loss_bytes()) // model.num_layers
    assert footprint.saved_bytes() == pytest.approx(saved, rel=0.2)


def write(path, content: bytes):
    path.write_bytes(content)
    return str(path)


def ids_file(tmp_path, ids, dtype=np.uint16, name="ids.bin") -> str:
    return write(tmp_path / name, np.asarray(ids, dtype=dtype).tobytes())


def test_check_ids_refuses_invalid_file(tmp_path, golden):
    good = ids_file(tmp_path, range(100))
    check_ids(good, context_length=99, vocab_size=100)
    for number, wrong in enumerate((np.zeros((4, 5), int), np.zeros(50), np.array([-1, 3, 4]))):
        np.save(tmp_path / f"{number}.npy", wrong)
    said = []
    for path, context, vocab in [
        (str(tmp_path / "none"), 8, 100),
        (good, 100, 100),
        (good, 8, 99),
        (write(tmp_path / "odd", b"123"), 8, 100),
        *((str(tmp_path / f"{number}.npy"), 2, 100) for number in range(3)),
    ]:
        with pytest.raises(ConfigError) as error:
            check_ids(path, context, vocab)
        said.append(str(error.value))
    assert not any("\n" in line for line in said)
    golden("\n".join(said))
    for name, content in (("empty", b""), ("torn.npy", b"\x93NUMPY\x01")):  # in the words of Python or numpy
        with pytest.raises(ConfigError, match="data_path="):
            check_ids(write(tmp_path / name, content), 8, 100)


@pytest.mark.parametrize("is_raw", [True, False])
@pytest.mark.parametrize("name", ["ids.bin", "ids.npy"])
def test_batches_come_from_file_whatever_its_name(tmp_path, name, is_raw):
    path = ids_file(tmp_path, range(500), name=name)
    if not is_raw:
        with open(path, "wb") as file:
            np.save(file, np.arange(500, dtype=np.int32))
    check_ids(path, context_length=9, vocab_size=500)
    batches = Batches(6, 9, 500, path, CPU, 1)
    first = batches.inputs.clone()
    batches.draw()
    assert not torch.equal(first, batches.inputs)
    assert torch.equal(batches.targets, batches.inputs + 1)
    assert torch.equal(batches.inputs[:, 1:], batches.targets[:, :-1])
    shortest = Batches(2, 9, 10, ids_file(tmp_path, range(10)), CPU, 1)
    assert shortest.inputs.tolist() == [list(range(9))] * 2


def test_gpu_matches_longest_table_entry():
    table = {"L4": 1, "H200": 2, "H200 NVL": 3, "A100": 4, "H100 80GB HBM3": 5}
    names = ["NVIDIA L4", "NVIDIA L40S", "NVIDIA H200", "NVIDIA H200 NVL", "NVIDIA A100-SXM4-80GB", "Radeon", ""]
    assert [entry_of(table, name) for name in names] == ["L4", "", "H200", "H200 NVL", "A100", "", ""]
    others = ["NVIDIA A100-SXM4-80GB MIG 3g.40gb", "NVIDIA L4 Laptop GPU", "NVIDIA L4 D", "NVIDIA L4 Ti"]
    assert [entry_of(table, name) for name in others] == [""] * 4


def test_missing_kernel_is_named(monkeypatch):
    assert kernels.attention_missing("flash", "float32", 16, False, CPU) == ""
    assert kernels.attention_missing("efficient", "float32", 16, False, CPU) != ""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    assert "CXX" in kernels.attention_missing("auto", "float32", 16, True, CPU)


@pytest.mark.parametrize(("hip", "allowed", "capability", "runs"), [
    (None, "", (9, 0), True), (None, "", (7, 5), False), ("7.0", "", (9, 4), False), ("7.0", "1", (9, 4), True),
])  # fmt: skip
def test_tf32_needs_a_gpu_that_has_it(monkeypatch, hip, allowed, capability, runs):
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setenv("HIPBLASLT_ALLOW_TF32", allowed)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    missing = kernels.attention_missing("auto", "tf32", 16, False, torch.device("cuda", 0))
    assert (missing == "") is runs


@pytest.mark.slow
def test_parallel_run_measures_one_rank_baseline(cli: Cli):
    few = ["measure=fixed", "measure.max_iterations=6", "measure.warmup_iterations=1", "model.num_layers=1"]
    shape = ["context_length=16", "batch_size=2", "model.vocab_size=300", "world_size=2"]
    done = cli("+suite=transformer", "-m", "model=tiny", "parallel=ddp,tp", *few, *shape)
    assert done.returncode == 0, done.stdout + done.stderr
    for record in cli.records():
        positions = {
            tuple(case["labels"][name] for name in ("pass", "ranks", "part")): at
            for at, case in enumerate(record["cases"])
        }
        assert {case["status"] for case in record["cases"]} == {"ok"}
        assert (("forward", 2, "communication") in positions) == (record["config"]["parallel"] != "ddp")
        joint, alone = (record["cases"][positions["train_step", ranks, "whole"]] for ranks in (2, 1))
        assert joint["baseline"] == positions["train_step", 1, "whole"]
        sends = positions["train_step", 2, "communication"]
        assert joint["components"] == {"computation": None, "communication": sends}
        assert record["cases"][sends]["is_component"]
        copies = 1 if record["config"]["parallel"] == "tp" else 2
        assert joint["useful_flops"] == copies * alone["useful_flops"]
        assert joint["details"]["tokens_per_call"] == copies * 32
        assert list(joint["regions_s"]) == ["forward", "loss", "backward", "optimizer"]
        assert max(alone["regions_s"]["forward"][1]) == 0  # the second rank has nothing to do
        assert joint["details"]["peak_bytes"] > 10**7


@pytest.mark.parametrize(
    ("lack", "shortage", "asked_for"),
    [("", "", ["lacks", "peak"]), ("no kernel", "", ["lacks"]), ("", "too little", ["lacks"])],
)
def test_ranks_agree_before_first_case(lack, shortage, asked_for, monkeypatch):
    asked = []
    monkeypatch.setattr(cases, "first_reason", lambda mine: asked.append("lacks") or mine or lack)
    peak = peak_flops.Peak([1e12, 1e12], 1e12, "data sheet")
    monkeypatch.setattr(cases.peak_flops, "peak", lambda *given: asked.append("peak") or peak)
    config = made(
        TransformerConfig,
        model=MIDDLE, parallel="ddp", passes=["forward"], batch_size=1, context_length=8, dtype="float32",
        compile="none", attention="auto", bucket_mib=25, activation_checkpointing=False,
    )  # fmt: skip
    rank = SimpleNamespace(index=1, world_size=2, device=CPU, memory_shortage=lambda needed_bytes: shortage)
    job = cases.TransformerJob(config, rank)
    assert asked == asked_for
    case = job.case("forward", 1)  # on rank 0 alone: this rank builds no model
    assert (case.unavailable, case.skip) == (lack, shortage)
    assert asked == asked_for


@pytest.mark.parametrize(
    ("device", "by_mps", "is_listed", "alone"),
    [("cuda", False, True, 2.0), ("cuda", False, False, 2.0), ("cuda", True, True, 1.0), ("cpu", False, False, 1.0)],
)
def test_rank_alone_has_whole_gpu_unless_mps_limits_it(monkeypatch, device, by_mps, alone, is_listed):
    """Of two ranks on a GPU, or on the cores of a host."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(peak_flops, "entry_of", lambda table, name: "GPU" if is_listed else "")
    monkeypatch.setattr(peak_flops, "all_gather_json", lambda value: [value, value])
    monkeypatch.setattr(peak_flops, "best_matmul", lambda *given: [5e12, 5e12])
    share = 50.0 if device == "cuda" else 100.0
    hardware = SimpleNamespace(peak_tflop_per_s={"GPU": {"float32": 5 * 100 / share}})
    config = SimpleNamespace(hardware=hardware, dtype="float32", model=MIDDLE, measure=SimpleNamespace(mode="loop"))
    rank = SimpleNamespace(
        device=torch.device(device), world_size=2, sharers=2, shares=(share, share), by_mps=by_mps
    )  # fmt: skip
    found = peak_flops.peak(config, 8, rank)
    assert (found.of(2), found.of(1)) == (10e12, alone * 5e12)


def test_tensor_parallel_sends_are_counted(tmp_path):
    outcome = run_ranks(
        "tests.support.transformer_bodies:all_reduces", [(rank, str(tmp_path / "meeting")) for rank in range(2)],
        environments=[{}, {}], folder=tmp_path, timeout_s=120,
    )  # fmt: skip
    assert outcome.failure is None, outcome.failure
    for counted, claimed in outcome.results[0]:
        assert counted == claimed
