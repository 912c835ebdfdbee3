"""Prefill and decode as cases: under a split, checked against the dense model in float64."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from benchkit.api.case import IDEAL_S, PREDICTED_S, TOKENS_PER_CALL, Call, Case, Details, Rank
from benchkit.api.drawing import uniform, whole
from benchkit.api.memory import wait_for_device
from benchkit.errors import InvalidResult
from benchkit.suites.ring_attention import splits
from benchkit.suites.ring_attention.cases import NO_TABLE, GatheredAttention
from benchkit.suites.ring_attention.planner import RingPlanner, doubts_of, fit_cost
from benchkit.suites.ring_attention.reference import compare, unseen_keys
from benchkit.suites.ring_attention.ring import RingAttention, require_kernel
from benchkit.suites.ring_attention.splits import Split
from benchkit.suites.ring_attention.suite import EVEN, LUT, STRATEGY, TOKENS, head_dim, read_table
from benchkit.suites.ring_model.decoder import MODEL_REGIONS, Decode, Decoder, Prefill
from benchkit.suites.ring_model.reference import hidden_states, logits
from benchkit.suites.ring_model.suite import (
    ALL_GATHER,
    DECODE,
    IMPLEMENTATION,
    PHASE,
    RING,
    SINGLE,
    WHOLE,
    Choice,
    RingModelConfig,
)


@dataclass
class ModelJob:
    """Shared state of the cases of a job. The planner has the costs of one layer."""

    rank: int
    world_size: int
    decoder: Decoder
    planner: RingPlanner
    decode_tokens: int
    seed: int
    doubts: tuple[str, ...] = ()
    _checked: tuple[int, Tensor] | None = field(default=None, init=False)

    def ids(self, turn: int) -> Tensor:
        """Draw the tokens of a turn, prompt and new ones; the same on all ranks."""
        generator = torch.Generator().manual_seed(self.seed + turn)
        vocabulary = len(self.decoder.embedding)
        length = self.planner.seq_len + self.decode_tokens
        drawn = torch.randint(vocabulary, (length,), generator=generator)
        return drawn.to(self.decoder.embedding.device)

    def expected(self, turn: int) -> Tensor:
        """Return the dense model's hidden states of a turn; cases share turns."""
        if self._checked is None or self._checked[0] != turn:
            self._checked = turn, hidden_states(self.decoder, self.ids(turn))
        return self._checked[1]

    def split(self, implementation: str, strategy: str) -> Split:
        if implementation == SINGLE:
            return Split(WHOLE, splits.contiguous([0, self.planner.seq_len]))
        return self.planner.split(strategy)


class PrefillCase:
    def __init__(self, job: ModelJob, implementation: str, strategy: str) -> None:
        self._job = job
        self._implementation = implementation
        self._split = job.split(implementation, strategy)
        self.takes_part = job.rank < len(self._split.pieces)
        self._turn = 0
        if self.takes_part:
            self._build(job.ids(0))

    def _build(self, ids: Tensor) -> None:
        self._prefill = self._prefill_of(ids)

    def _prefill_of(self, ids: Tensor) -> Prefill:
        job = self._job
        kind = GatheredAttention if self._implementation == ALL_GATHER else RingAttention
        attention = kind(self._split, job.rank, True, ids.device)
        return Prefill(job.decoder, ids[: job.planner.seq_len], attention)

    def step(self) -> Tensor | None:
        return self._prefill.step() if self.takes_part else None

    def verify(self, call: Call) -> None:
        self._turn += 1
        if self.takes_part:
            self._compare(self._job.ids(self._turn), self._job.expected(self._turn), call)

    def _compare(self, ids: Tensor, expected: Tensor, call: Call) -> None:
        prefill = self._prefill
        prefill.take(ids)

        def prepare() -> None:
            prefill.x.fill_(float("nan"))
            prefill.logits = None

        call(prepare)
        wait_for_device(prefill.x)
        positions = prefill.attention.positions
        compare(prefill.x, expected[positions], "hidden state of token", positions.tolist())
        if prefill.logits is not None:
            last = self._job.planner.seq_len - 1
            rows = logits(self._job.decoder, expected[last : last + 1])
            compare(prefill.logits, rows, "logits after token", [last])

    def details(self) -> Details:
        """Return the split, and for a ring the predicted time without embedding and head."""
        planner, num_layers = self._job.planner, len(self._job.decoder.layers)
        shared = {**self._split_details(), TOKENS_PER_CALL: planner.seq_len}
        if self._implementation != RING:
            return shared
        predicted_s, ideal_s = planner.step_s(self._split), planner.ideal_s()
        return {**shared, PREDICTED_S: num_layers * predicted_s, IDEAL_S: num_layers * ideal_s}

    def _split_details(self) -> Details:
        idle = [0] * (self._job.world_size - len(self._split.pieces))
        return {TOKENS: self._split.tokens + idle, "speed": list(self._job.planner.speeds)}


class DecodeCase(PrefillCase):
    def _build(self, ids: Tensor) -> None:
        prefill = self._prefill_of(ids)
        prefill.step()
        job = self._job
        self._decode = Decode(job.decoder, ids, prefill.cache, self._split.tokens, job.rank)

    def step(self) -> Tensor | None:
        return self._decode.step() if self.takes_part else None

    def _compare(self, ids: Tensor, expected: Tensor, call: Call) -> None:
        prefill, decode = self._prefill_of(ids), self._decode
        prefill.step()
        decode.take(ids, prefill.cache)
        call(decode.forget)
        first = self._job.planner.seq_len
        if len(decode.logits) != len(expected) - first:
            raise InvalidResult(f"{len(decode.logits)} of {len(expected) - first} tokens decoded")
        rows = logits(self._job.decoder, expected[first:])
        names = list(range(first, len(expected)))
        compare(torch.cat(decode.logits), rows, "logits after token", names)

    def details(self) -> Details:
        return {**self._split_details(), TOKENS_PER_CALL: self._job.decode_tokens}


BASELINE = (RING, EVEN)


def cases_of(config: RingModelConfig, rank: Rank) -> list[Case]:
    choices = config.choices()
    if shortage := rank.memory_shortage(config.needed_bytes(rank.world_size)):
        return [Case(labels=labels_of(choice), skip=shortage) for choice in choices]
    job = job_of(config, rank)
    cases: dict[Choice, Case] = {}
    for choice in sorted(choices, key=lambda choice: choice[1:] != BASELINE):  # the baselines first
        cases[choice] = case_of(job, choice, cases.get((choice[0], *BASELINE)))
    return [cases[choice] for choice in choices]


def labels_of(choice: Choice) -> dict[str, str | int | float]:
    return dict(zip((PHASE, IMPLEMENTATION, STRATEGY), choice, strict=True))


def job_of(config: RingModelConfig, rank: Rank) -> ModelJob:
    model = config.known_model()
    dtype = getattr(torch, config.dtype)
    require_kernel(rank.device, dtype, head_dim(model))
    length = config.seq_len + config.decode_tokens
    decoder = Decoder.random(model, length, dtype=dtype, device=rank.device, seed=rank.seed)
    first = decoder.layers[0]
    tokens = whole(config.seq_len, model.d_model)
    x = uniform(tokens, key=rank.seed, device=rank.device, variance=1).to(dtype)
    cost, speeds = fit_cost(first.attention, x, True, rank.seconds_of, first.feed_forward)
    table = read_table(config.lut, config.seq_len, config.dtype)
    planner = RingPlanner(
        config.seq_len, config.align, rank.shares, table.performance, cost, speeds
    )
    doubts, num_new = doubts_of(table, rank), config.decode_tokens
    return ModelJob(rank.index, rank.world_size, decoder, planner, num_new, rank.seed, doubts)


def case_of(job: ModelJob, choice: Choice, baseline: Case | None) -> Case:
    phase, implementation, strategy = choice
    if strategy == LUT and not job.planner.table:
        return Case(labels=labels_of(choice), skip=NO_TABLE)
    kind = DecodeCase if phase == DECODE else PrefillCase
    phase_case = kind(job, implementation, strategy)
    ranks = 1 if implementation == SINGLE else job.world_size
    layers = job.decoder.layers
    return Case(
        step=phase_case.step,
        labels=labels_of(choice),
        verify=phase_case.verify,
        regions=MODEL_REGIONS,
        details=phase_case.details,
        # One rank's time beside the even ring's is no scaling efficiency: SINGLE has no baseline.
        baseline=None if implementation == SINGLE else baseline,
        ranks=1 if implementation == SINGLE else None,
        includes_launches=True,
        warnings=job.doubts if strategy == LUT else (),
        unchecked=unseen_keys(ranks, job.decoder.head.dtype, len(layers)),
    )
