"""What a comparison found, as compare_result.json has it."""

from dataclasses import dataclass, field

from benchkit.statistics.compare.spread import Spread
from benchkit.statistics.compare.tails import Change
from benchkit.statistics.compare.verdicts import Verdict


@dataclass
class Compared:
    """One point of one arm against the baseline.

    Attributes:
        name: of the point.
        arm: the candidate, as it was typed.
        word: FASTER, SLOWER, SAME, UNCLEAR, FAILED, FIXED, NEW or NOT COMPARED.
        reason: why it has no times in some pairs; "" if it has.
        verdict: None where the times of pairs do not decide the word.
        spread: between runs.
        floor: the noise floor that it was held against, as a share; None if not known.
        floor_of_pairs: the noise floor that these pairs give if both arms are identical.
        baseline_s: the figure of each pair's run of the baseline, in seconds; NaN without.
        candidate_s: the same of the candidate.
        identical_runs: what two identical single runs differ by, as a share, by a selftest; None
            without one.
    """

    name: str
    arm: str
    word: str
    reason: str
    verdict: Verdict | None
    spread: Spread
    floor: float | None
    floor_of_pairs: float | None
    baseline_s: list[float]
    candidate_s: list[float]
    identical_runs: float | None = None


@dataclass(frozen=True)
class Finding:
    """A secondary figure of a point that differs.

    Attributes:
        name: of the point.
        arm: the candidate, as it was typed.
        figure: such as p95.
        is_share: whether the change is a difference of shares; else it is one of logarithms.
        change: of the figure.
    """

    name: str
    arm: str
    figure: str
    is_share: bool
    change: Change


@dataclass(frozen=True)
class Mean:
    """The geometric mean of the ratios of all points, and its interval over pairs.

    Attributes:
        arm: the candidate; of A/A pairs the baseline.
        num_pairs: pairs that have all points.
        ratio: NaN without pairs.
        low: lower end of its interval, 0 where the pairs are too few for one.
        high: its upper end, infinity where the pairs are too few for one.
    """

    arm: str
    num_pairs: int
    ratio: float
    low: float
    high: float


@dataclass
class Result:
    """compare_result.json.

    Attributes:
        id: of the comparison.
        arms: as they were typed; the first one is the baseline.
        overrides: of all runs.
        statistic: of the times of a run.
        fail_on: the least change that matters, as a share.
        level: error rate of each look.
        num_pairs: pairs of runs, without A/A pairs.
        points: of all arms.
        means: of each arm.
        control: of A/A pairs; None without any.
        secondary: figures beside the statistic that differ.
        remarks: one line each.
        exit_code: of the comparison.
    """

    id: str
    arms: list[str]
    overrides: list[str]
    statistic: str
    fail_on: float
    level: float
    num_pairs: int
    points: list[Compared] = field(default_factory=list)
    means: list[Mean] = field(default_factory=list)
    control: Mean | None = None
    secondary: list[Finding] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    exit_code: int = 0

    @property
    def words(self) -> list[str]:
        return [point.word for point in self.points]
