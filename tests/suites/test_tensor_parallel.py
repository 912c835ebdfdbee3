"""Tensor-parallel products: options, exact checks, the cost model, and every implementation on real ranks."""

import queue
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from benchkit.api import torch_internals
from benchkit.api.case import Components, Work, noop
from benchkit.api.drawing import integers, whole
from benchkit.api.sizes import FLOAT8
from benchkit.errors import ConfigError, InvalidResult, Unavailable
from benchkit.suites.tensor_parallel import operands, primitive
from benchkit.suites.tensor_parallel.chooser import ProductCosts, Trial, choose, measure_costs
from benchkit.suites.tensor_parallel.config import expand
from benchkit.suites.tensor_parallel.operands import SIGNS, Factory, Scratch, Shards, require_close, require_exact
from benchkit.suites.tensor_parallel.primitive import chunks_of, share_scratch
from benchkit.suites.tp_columnwise import symmetric_memory
from benchkit.suites.tp_columnwise.cases import Columnwise, ColumnwiseCases
from benchkit.suites.tp_columnwise.suite import TpColumnwiseConfig
from benchkit.suites.tp_rowwise import cases as rowwise_module
from benchkit.suites.tp_rowwise.cases import RowwiseCases
from benchkit.suites.tp_rowwise.suite import TpRowwiseConfig

from tests.support import fakes
from tests.support.cli import Cli
from tests.support.entries.rank import require_references

ALLOWED = TpColumnwiseConfig.allowed
CPU = torch.device("cpu")


def test_expand_multiplies_options_and_drops_null():
    found = expand({"pytorch": {"order": ["AG_before", "AG_after"]}, "pipeline": None, "auto": {}}, ALLOWED)
    assert found == [
        {"implementation": "pytorch", "order": "AG_before", "backend": "default"},
        {"implementation": "pytorch", "order": "AG_after", "backend": "default"},
        {"implementation": "auto", "backend": "default"},
    ]
    assert len(expand({"pipeline": {"order": ["AG_before", "AG_after"], "chunks": [2, 3]}}, ALLOWED)) == 4


def test_expand_multiplies_groups_separately():
    groups = [{"order": "AG_before", "chunks": 2}, {"order": "AG_after", "chunks": [2, 4]}, {"chunks": 2}]
    found = [(each["order"], each["chunks"]) for each in expand({"pipeline": groups}, ALLOWED)]
    assert found == [("AG_before", 2), ("AG_after", 2), ("AG_after", 4)]  # the last is the first again


REFUSED = [
    {"pytorsh": {}}, {"pytorch": {"ordre": "AG_after"}}, {"pytorch": {"order": "before"}}, {"pipeline": {"chunks": 0}},
    {"pipeline": {"chunks": True}}, {"symmetric_memory": {"order": 1}}, {"pytorch": 3}, {"pytorch": None},
]  # fmt: skip


def test_expand_refuses_invalid_options(golden):
    said = []
    for given in REFUSED:
        with pytest.raises(ConfigError) as error:
            expand(given, ALLOWED)
        said.append(f"{given}\n    {error.value}")
    golden("\n".join(said))


def test_shards_cover_range_evenly():
    for total in (1, 7, 12, 100):
        for size in (1, 2, 3, 5):
            shards = Shards(total, size)
            covered = [i for rank in range(size) for i in range(*shards.of(rank).indices(total))]
            assert covered == list(range(total))
            assert max(shards.sizes) - min(shards.sizes) <= 1
            assert shards.most == max(shards.sizes)
            assert shards.even == (total % size == 0)
    assert chunks_of(10, 4) == [slice(0, 3), slice(3, 6), slice(6, 8), slice(8, 10)]
    assert len(chunks_of(2, 8)) == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_exact_products_hold_in_every_dtype(dtype):
    a, b = Factory(50, 40, 5000, seed=1, device=CPU).exact(3)
    assert int((a != 0).sum(1).max()) <= 64
    require_exact((a.to(dtype) @ b.to(dtype)).to(dtype), a, b, 0, seed=2)
    again, _ = Factory(50, 40, 5000, seed=1, device=CPU).exact(3)
    other, _ = Factory(50, 40, 5000, seed=1, device=CPU).exact(4)
    assert torch.equal(a, again)
    assert not torch.equal(a, other)


def test_exact_rows_are_the_same_in_any_order_of_writing():
    """A column that is drawn twice has the sum; which of two writes is last differs between devices."""
    factory = Factory(200, 1, 64, seed=1, device=CPU)
    a, _ = factory.exact(0)
    signs = integers(whole(200, 64), 0, 2, **factory.at(0, SIGNS)) * 2 - 1
    assert torch.equal(a.sum(1), signs.sum(1))
    assert a.abs().max() > 1


def test_require_exact_names_wrong_element():
    a, b = Factory(30, 20, 10, seed=1, device=CPU).exact(0)
    product = a.double() @ b.double()
    product[17, 5] += 1
    with pytest.raises(InvalidResult, match=r"\[117, 5\].*1 rows"):
        require_exact(product, a, b, 100, seed=0)
    product[17, 5] = float("nan")
    with pytest.raises(InvalidResult, match="nan"):
        require_exact(product, a, b, 0, seed=0)
    swapped = (a.double() @ b.double())[[0, 1, 2, 29, *range(4, 29), 3]]
    with pytest.raises(InvalidResult, match="2 rows"):
        require_exact(swapped, a, b, 0, seed=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_require_close_allows_rounding_only(dtype):
    a, b = Factory(30, 20, 4000, seed=1, device=CPU).real(0)
    product = a.to(dtype) @ b.to(dtype)
    require_close(product, a, b, 0, seed=0)
    wrong = product + 16 * torch.finfo(dtype).eps * (4000**0.5 + product.abs())
    with pytest.raises(InvalidResult, match="rounding"):
        require_close(wrong, a, b, 0, seed=0)


COSTS = ProductCosts(latency_s=1e-5, byte_s=1e-9, flop_s=1e-11)


def trials(one_s, two_s, limit_s=0.010):
    """A pipeline that takes so long in one chunk and in two."""
    return [
        Trial({"implementation": "pipeline", "chunks": chunks}, seconds, limit_s)
        for chunks, seconds in ((1, one_s), (2, two_s))
    ]


def test_costs_extrapolate_to_more_chunks():
    """10 ms each, alone: 20 in one chunk, 15 in two, and 11.25 in eight, but for what each chunk costs."""
    predicted = {options["chunks"]: seconds for seconds, options in COSTS.predict(trials(0.02001, 0.01502))}
    assert [predicted[1], predicted[2]] == [0.02001, 0.01502]
    assert predicted[4] == pytest.approx(0.0125 + 4e-5)
    assert predicted[8] == pytest.approx(0.01125 + 8e-5)
    assert COSTS.predict(trials(0.02, 0.011, limit_s=0.0105))[0][0] == 0.0105  # no faster than the longest part
    assert COSTS.limit_s(flops=1e9, num_bytes=0) == pytest.approx(0.01)
    assert COSTS.limit_s(flops=0, num_bytes=20e6) == pytest.approx(0.02001)


def test_costs_stop_chunking_without_gain():
    plain = Trial({"implementation": "pytorch"}, 0.0205, 0.01)
    hindered = [plain, *trials(0.020, 0.021)]
    assert COSTS.predict(hindered)[0][1] == {"implementation": "pipeline", "chunks": 1}
    slow = ProductCosts(latency_s=1e-3, byte_s=1e-9, flop_s=1e-11)
    assert slow.predict(trials(0.0200, 0.0185))[0][1]["chunks"] == 2  # every chunk has its latency
    alone = trials(0.02, 0.01)[1:]
    assert [options["chunks"] for _, options in COSTS.predict(alone)] == [2]  # it needs both


def test_choose_retries_near_best_options():
    times = {"pytorch": 0.020, "pipeline 1": 0.019, "pipeline 2": 0.0185, "p2p_pipeline 1": 0.05}
    asked: list[list[str]] = []

    def timed(choices):
        names = [" ".join(str(each) for name, each in options.items() if name != "backend") for options in choices]
        asked.append(names)
        return [times[name] if len(asked) == 1 else 0.017 if name == "pytorch" else 0.02 for name in names]

    kinds = [
        ({"implementation": "pytorch", "backend": "default"}, 0.01),
        ({"implementation": "pipeline", "chunks": 1, "backend": "default"}, 0.01),
        ({"implementation": "pipeline", "chunks": 2, "backend": "default"}, 0.01),
        ({"implementation": "p2p_pipeline", "chunks": 1, "backend": "default"}, 0.01),
    ]
    chosen, told = choose(ProductCosts(2e-4, 0, 0), kinds, timed)
    assert chosen == {"implementation": "pytorch", "backend": "default"}
    assert (told["chosen"], told["predicted_s"], told["latency_s"]) == ("pytorch", 0.017, 2e-4)
    assert asked == [list(times), ["pipeline 2", "pipeline 4", "pipeline 1", "pipeline 8", "pytorch"]]


def test_costs_follow_slowest_rank():
    times = {"small": 1e-4, "large": 1.1e-3, "compute": 2e-3}
    calls = {name: (lambda name=name: name) for name in times}
    costs = measure_costs(
        lambda *calls: [[times[call()] / 2, times[call()]] for call in calls],
        (1000, calls["small"]), (1001000, calls["large"]), (4e6, calls["compute"]),
    )  # fmt: skip
    assert costs.byte_s == pytest.approx(1e-9)
    assert costs.latency_s == pytest.approx(1e-4 - 1e-6)
    assert costs.flop_s == pytest.approx(5e-10)
    costs = measure_costs(lambda *calls: [[2e-4], [1e-4], [1e-3]], (8, int), (8, int), (1e6, int))
    assert (costs.byte_s, costs.latency_s) == (0.0, 2e-4)  # one row has no cost per byte


def alone(group, scratch=None):
    """A job of one rank."""
    return Columnwise(Shards(4, 1), 0, group, torch.rand(4, 3), torch.rand(3, 2), torch.zeros(4, 2), scratch)


def test_steps_in_turns_share_scratch_memory():
    job = alone(None, Scratch(torch.zeros(48, dtype=torch.uint8)))
    held = job.new(1, job.a)
    for value in (1.0, 2.0):
        buffer = share_scratch(job).new(2, job.a)
        assert (buffer == value - 1).all()  # what the step before left
        buffer.fill_(value)
    assert (held == 0).all()
    with pytest.raises(AssertionError, match="scratch"):
        share_scratch(job).new(4, job.a)


GROUP = SimpleNamespace(group_name="alone")


def test_symmetric_memory_loads_in_prepare(monkeypatch):
    """All but the device's own call, which stands in for itself."""
    job = alone(GROUP)
    monkeypatch.setattr(symmetric_memory, "obstacle", lambda job: "")
    monkeypatch.setattr(symmetric_memory, "trial_refusal", lambda *given: "")
    monkeypatch.setattr(symmetric_memory, "allocate_shard", lambda job: torch.empty_like(job.a))
    monkeypatch.setattr(torch_internals, "all_gather_matmul", lambda shard, b, name: shard @ b)
    built = symmetric_memory.all_gather_matmul(job, Work(), None)
    built.prepare()
    job.a[0] = 7.0  # a later change is not seen before it is prepared again
    before = built.step() or built.output().clone()
    built.prepare()
    built.step()
    assert torch.equal(built.output(), job.a @ job.b)
    assert not torch.equal(before, built.output())


def refusal(error):
    """A call that raises an error."""

    def refuse(*given):
        raise error

    return refuse


def peer_refuses(reason, group):
    """What the ranks agree on if another one is refused, whatever this one says."""
    return reason or "no multicast on rank 1"


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ("symmetric_empty", "no peer"),
        ("all_gather_matmul", "no peer"),
        ("", "no multicast"),
    ],
)
def test_refused_fused_product_is_unavailable(refused, said, monkeypatch):
    """A trial before anything is timed finds the refusal, which all ranks then know."""
    job = alone(GROUP)
    monkeypatch.setattr(symmetric_memory, "obstacle", lambda job: "")
    monkeypatch.setattr(symmetric_memory, "trial_refusal", lambda *given: "")
    monkeypatch.setattr(symmetric_memory, "first_reason", peer_refuses)
    monkeypatch.setattr(torch_internals, "symmetric_empty", lambda like, name: torch.empty_like(like))
    monkeypatch.setattr(torch_internals, "all_gather_matmul", lambda shard, b, name: shard @ b)
    if refused:
        monkeypatch.setattr(torch_internals, refused, refusal(RuntimeError("no peer access\nat a line")))
    with pytest.raises(Unavailable, match=said):
        symmetric_memory.all_gather_matmul(job, Work(), None)


@pytest.fixture
def tried(monkeypatch):
    """The reason of a trial on this rank that ends so, where another one has its own reason."""

    def reason(error, peer=""):
        monkeypatch.setattr(symmetric_memory, "run_in_fresh_process", refusal(error) if error else noop)
        monkeypatch.setattr(symmetric_memory, "first_reason", lambda own: own)
        monkeypatch.setattr(symmetric_memory, "all_gather_json", lambda own: [own, peer])
        monkeypatch.setattr(torch_internals, "store_address", lambda: "")
        for name in ("get_rank", "get_world_size", "get_backend"):
            monkeypatch.setattr(dist, name, lambda: 0)
        return symmetric_memory.trial_refusal.__wrapped__(torch.float32, CPU)

    return reason


def test_trial_of_fused_product_ends(tried):
    assert tried(None) == ""
    assert tried(None, "no multicast") == "no multicast"
    assert tried(RuntimeError("no peer access\nat a line")) == "no peer access"
    assert tried(torch.OutOfMemoryError("CUDA out of memory")) == "CUDA out of memory"  # not this rank's
    assert tried(BrokenProcessPool()) == tried(BrokenProcessPool(), symmetric_memory.TOO_LONG)
    assert tried(BrokenProcessPool()) == symmetric_memory.TOO_LONG
    assert tried(BrokenProcessPool(), "no peer access") == "no peer access"  # the others only waited for it


def test_trial_is_left_out_where_torch_has_no_symmetric_memory(tried, monkeypatch):
    monkeypatch.setattr(torch_internals, "symmetric_memory_missing", lambda: "none here")
    assert tried(AssertionError("tried")) == "none here"


def test_fused_trial_out_of_memory_is_no_refusal(monkeypatch):
    job = alone(GROUP)
    monkeypatch.setattr(torch_internals, "symmetric_empty", refusal(RuntimeError("CUDA out of memory")))
    with pytest.raises(RuntimeError, match="memory"):
        symmetric_memory.allocate_shard(job)


def test_symmetric_memory_requires_gpus():
    with pytest.raises(Unavailable, match="needs GPUs"):
        symmetric_memory.all_gather_matmul(alone(None), Work(), None)


def cases_of(
    primitive, allowed, job_backend="gloo", size=2, shortage="", inputs="exact", dtype="float32", **implementations
):
    """The cases of a job on rank 0, by name, where ucc is not there; nothing is communicated until a step runs."""

    def group(name):
        if name.startswith("ucc"):
            raise Unavailable(f"built without {name}")

    rank = SimpleNamespace(index=0, world_size=size, seed=0, device=torch.device("cpu"), group=group)
    rank.memory_shortage = lambda needed_bytes: shortage
    shape = {"m": 8, "n": 4, "k": 6, "dtype": dtype, "inputs": inputs}
    config = SimpleNamespace(**shape, backend=SimpleNamespace(name=job_backend), operand_bytes=lambda *_: (0, 2**16))
    cases = primitive(config, rank, expand(implementations, allowed)).cases()
    require_references(cases)
    return {name_of(case): case for case in cases}


def name_of(case):
    """The labels of a case as one text: "pipeline AG_before 4 default"."""
    return case and " ".join(map(str, case.labels.values()))


def columnwise(job_backend="gloo", **implementations):
    return cases_of(ColumnwiseCases, ALLOWED, job_backend, **implementations)


def rowwise(**implementations):
    return cases_of(RowwiseCases, TpRowwiseConfig.allowed, **implementations)


def test_baseline_uses_same_backend():
    both = {"backend": ["default", "nccl"]}
    cases = columnwise(pytorch={"order": ["AG_before", "AG_after"], **both}, pipeline=both, symmetric_memory={})
    assert {name: name_of(case.baseline) for name, case in cases.items() if not case.unavailable} == {
        "pytorch AG_before default": None,
        "pytorch AG_before nccl": None,
        "pytorch AG_after default": "pytorch AG_before default",
        "pytorch AG_after nccl": "pytorch AG_before nccl",
        "pipeline AG_before 4 default": "pytorch AG_before default",
        "pipeline AG_before 4 nccl": "pytorch AG_before nccl",
    }
    cases = rowwise(pytorch=both, p2p_pipeline=both)
    assert cases["p2p_pipeline 4 nccl"].baseline is cases["pytorch reduce_scatter nccl"]
    assert cases["p2p_pipeline 4 default"].baseline is cases["pytorch reduce_scatter default"]


def test_checked_steps_are_offered_for_capture():
    cases = columnwise(compute_only={}, comm_only={}, pytorch={"backend": ["default", "nccl"]})
    offered = {name: getattr(case.step, "over", None) for name, case in cases.items()}
    assert offered == {
        "compute_only sharded": "",
        "comm_only AG_before default": "default",
        "pytorch AG_before default": "default",
        "pytorch AG_before nccl": "nccl",
    }


def test_baseline_falls_back_to_first_usable_case():
    cases = columnwise(pytorch={"backend": ["ucc", "nccl", "gloo"]}, pipeline={"backend": ["default", "ucc/tl/cuda"]})
    [_, _, gloo, compared, _] = cases.values()
    assert compared.baseline is gloo  # the job's backend is gloo
    assert cases["pytorch AG_before ucc"].unavailable == "built without ucc"
    cases = columnwise("mpi", pytorch={"backend": ["ucc", "nccl", "gloo"]}, pipeline={})
    assert cases["pipeline AG_before 4 default"].baseline is cases["pytorch AG_before nccl"]
    assert columnwise(pipeline={})["pipeline AG_before 4 default"].baseline is None
    cases = rowwise(pytorch={"backend": "nccl", "collective": ["all_reduce", "reduce_scatter"]})
    assert cases["pytorch all_reduce nccl"].baseline is cases["pytorch reduce_scatter nccl"]
    assert list(cases) == ["pytorch all_reduce nccl", "pytorch reduce_scatter nccl"]  # as asked


def test_components_come_from_job_cases():
    bounds = {"compute_only": {"size": "unsharded"}, "comm_only": {"backend": "default"}}
    cases = columnwise(**bounds, pytorch={"backend": ["gloo", "nccl"], "order": ["AG_before", "AG_after"]})
    computation, communication = cases["compute_only unsharded"], cases["comm_only AG_before default"]
    assert computation.is_component
    assert cases["pytorch AG_before gloo"].components == Components(computation, communication)
    assert cases["pytorch AG_before nccl"].components == Components(computation, None)
    assert cases["pytorch AG_after gloo"].components == Components()
    cases = rowwise(comm_only={"collective": "all_reduce"}, pytorch={"collective": ["all_reduce", "reduce_scatter"]})
    assert cases["pytorch all_reduce default"].components == Components(None, cases["comm_only all_reduce default"])
    assert cases["pytorch reduce_scatter default"].components == Components()
    alone = cases_of(ColumnwiseCases, ALLOWED, size=1, **bounds, pytorch={})
    assert alone["pytorch AG_before default"].components == Components()


@pytest.mark.parametrize(
    ("inputs", "dtype", "size", "of_rows", "of_columns"),
    [
        ("exact", "float32", 2, "", ""),
        ("exact", "float32", 64, "whether a rank's summand is missing: about 8 elements of A show each", ""),
        ("real", "bfloat16", 64, operands.UNSAMPLED, operands.UNSAMPLED),
        ("real", "float32", 512, operands.UNSAMPLED, operands.UNSAMPLED),
        ("real", "bfloat16", 512, f"{operands.UNSAMPLED}; whether a rank's summand is missing", operands.UNSAMPLED),
    ],
)
def test_check_of_products_says_what_it_does_not_see(inputs, dtype, size, of_rows, of_columns):
    given = {"size": size, "inputs": inputs, "dtype": dtype, "pytorch": {}}
    [rows] = cases_of(RowwiseCases, TpRowwiseConfig.allowed, **given).values()
    [columns] = [case for name, case in cases_of(ColumnwiseCases, ALLOWED, **given).items() if "AG_before" in name]
    assert rows.unchecked.partition(", which is less")[0] == of_rows
    assert columns.unchecked == of_columns


def test_oversized_case_keeps_labels():
    [(name, case)] = cases_of(ColumnwiseCases, ALLOWED, shortage="needs more", pytorch={}).items()
    assert (name, case.skip) == ("pytorch AG_before default", "needs more")


@pytest.mark.parametrize("lost", [None, 5])
def test_ring_of_many_ranks_has_an_exact_sum(monkeypatch, lost):
    """In bfloat16, where sums of sums would soon be beyond its integers; a summand that is lost shows."""
    size = 16
    wires = defaultdict(queue.Queue)

    class Thread:
        """What ranks in threads of this process send each other."""

        def __init__(self, num_pieces):
            self.arriving = None

        def start(self, piece, sends, receives, group):
            [(sent, after)], [self.arriving] = sends, receives
            rank = (after - 1) % size
            wires[rank, after].put(torch.zeros_like(sent) if rank == lost and not self.begun(rank) else sent.clone())

        def begun(self, rank):
            return not wires["begun", rank].empty() or wires["begun", rank].put(True)

        def wait(self, piece):
            if self.arriving:
                buffer, before = self.arriving
                buffer.copy_(wires[before, (before + 1) % size].get(timeout=60))

    monkeypatch.setattr(rowwise_module, "InFlight", Thread)
    shape = {"m": 64, "n": 40, "k": 48, "dtype": "bfloat16", "inputs": "exact"}
    config = SimpleNamespace(**shape, backend=SimpleNamespace(name="gloo"), operand_bytes=lambda *_: (0, 2**20))
    chosen = expand({"p2p_comm_only": {}}, TpRowwiseConfig.allowed)

    def outcome(index):
        rank = SimpleNamespace(index=index, world_size=size, seed=0, device=CPU, group=lambda name: None)
        rank.memory_shortage = lambda needed_bytes: ""
        [case] = RowwiseCases(config, rank, chosen).cases()
        try:
            fakes.verify(case)
        except InvalidResult:
            return "invalid"
        return "ok"

    with ThreadPoolExecutor(size) as threads:
        found = list(threads.map(outcome, range(size)))
    assert found == ["invalid" if lost is not None and rank == lost - 1 else "ok" for rank in range(size)]


BOTH = "+suite=tp_columnwise,tp_rowwise"
QUICK = ["measure=few", "threads_per_rank=1"]


@pytest.mark.slow
def test_implementations_pass_on_ragged_shapes(cli: Cli):
    done = cli(BOTH, "m=choice(37)", "n=choice(24)", "k=choice(29)", "world_size=3", "inputs=exact,real", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    records = cli.records()
    assert len(records) == 4
    several = [case for record in records if record["world_size"] > 1 for case in record["cases"]]
    whole = [case for case in several if case["status"] == "ok" and not case["is_component"]]
    assert all(None not in case["components"].values() for case in whole)
    for record in records:
        for case in record["cases"]:
            unable = case["labels"]["implementation"] == "symmetric_memory"
            assert case["status"] == ("unavailable" if unable else "ok"), (record["overrides"], case)


@pytest.mark.slow
def test_float8_products_are_exact_or_rounded_once(cli: Cli):
    """Rows are ragged; shards of A travel as float8, by collectives and from peer to peer."""
    shape = ["m=choice(37)", "n=choice(32)", "k=choice(96)", "world_size=3"]
    done = cli(BOTH, *shape, "dtype=choice(float8_e4m3fn)", "inputs=exact,real", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    records = cli.records()
    assert len(records) == 4
    for case in (case for record in records for case in record["cases"]):
        unable = case["labels"]["implementation"] == "symmetric_memory"
        assert case["status"] == ("unavailable" if unable else "ok"), case
        assert unable or case["details"]["product_dtype"] == "bfloat16"
    sent = {
        case["labels"]["order"]: case["wire_bytes"]
        for record in records
        for case in record["cases"]
        if case["labels"]["implementation"] == "comm_only" and "order" in case["labels"]
    }
    assert sent == {"AG_before": 2 * 13 * 96 * 1, "AG_after": 2 * 13 * 32 * 2}  # A in float8, C in bfloat16


def test_rank_that_cannot_multiply_float8_says_so(monkeypatch):
    monkeypatch.setattr(primitive, "first_reason", lambda reason: reason)
    config = SimpleNamespace(
        m=8, n=16, k=48, dtype=FLOAT8, inputs="exact", backend=SimpleNamespace(name="gloo"),
        operand_bytes=lambda *_: (0, 0),
    )  # fmt: skip
    rank = SimpleNamespace(index=0, world_size=2, seed=0, device=torch.device("cpu"))
    [case] = RowwiseCases(
        config, rank, expand({"pytorch": {"collective": "all_reduce"}}, TpRowwiseConfig.allowed)
    ).cases()
    assert "24 columns" in case.unavailable
    monkeypatch.setattr(primitive, "float8_missing", lambda kind: f"not on {kind.device}")
    [case] = ColumnwiseCases(config, rank, expand({"pytorch": {"order": "AG_after"}}, ALLOWED)).cases()
    assert case.unavailable == "not on cpu"


def test_command_line_refuses_unknown_option(check):
    assert check("+suite=tp_columnwise", "implementations.pytorch.ordre=AG_after").startswith(
        "implementations.pytorch.ordre"
    )


@pytest.mark.slow
def test_broken_implementations_are_invalid(cli: Cli):
    """A swapped chunk, a message that never arrives: in every implementation that communicates."""
    cli.environment["BENCHKIT_SUITES"] = "tests.support.broken"
    done = cli(BOTH, "m=choice(63)", "n=choice(24)", "k=choice(48)", "fault=swapped,lost", *QUICK)
    assert done.returncode == 1, done.stdout + done.stderr
    records = cli.records()
    assert len(records) == 4
    for case in (case for record in records for case in record["cases"]):
        kind = case["labels"]["implementation"]
        expected = {"compute_only": "ok", "symmetric_memory": "unavailable"}.get(kind, "invalid")
        assert case["status"] == expected, case["labels"]
