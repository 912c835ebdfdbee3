"""What agent 0 knows of a comparison: which runs count, which one is next, and when it ends."""

from pathlib import Path

from benchkit.compare import report, runs
from benchkit.compare.ended import read_end
from benchkit.compare.figures import RunFigures, read_run
from benchkit.compare.judging import judge_runs
from benchkit.compare.plan import Plan, Turn, turns_of
from benchkit.compare.result import Result
from benchkit.errors import ConfigError
from benchkit.statistics.compare.looks import auto_plan, fixed_plan


class Progress:
    """Goes through the order of runs, and judges them at looks.

    A round counts when all of its runs do. So a comparison that goes on after an interruption takes
    the same looks, at the same pairs, as one that was not interrupted.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        """Begins with the runs in the folder that count already.

        Args:
            plan: of the comparison.
            folder: of the comparison.
        """
        self._plan = plan
        self._folder = folder
        pairs = plan.options.pairs
        self._looks = fixed_plan(pairs) if pairs else auto_plan(plan.options.max_pairs)
        self._figures: dict[tuple[int, int], RunFigures] = {}
        self._num_points: dict[str, int] = {}
        self._num_rounds = 0
        self._num_pairs = 0
        self._is_answered = False
        self._result: Result | None = None

    def next_turn(self) -> Turn | None:
        """Returns the run that is to be made next; None when the comparison is at its end."""
        while self._num_rounds < len(self._plan.order) and not self._is_answered:
            played = self._plan.order[self._num_rounds]
            for turn in turns_of(self._num_rounds + 1, played):
                if (turn.number, turn.role) not in self._figures and not self._read(turn):
                    return turn
            self._num_rounds += 1
            if not played.is_control:
                self._num_pairs += 1
                self._look()
        return None

    def add(self, turn: Turn, seconds: float, line: str) -> None:
        """Counts a run that has ended.

        Args:
            turn: the run.
            seconds: that it took.
            line: the last one that it printed.
        """
        arm = self._plan.arms[turn.arm]
        folder = self._folder / "runs" / turn.name
        runs.count(arm, folder, seconds, line)
        limit = f"{'' if self._plan.options.pairs else 'up to '}{self._looks.looks[-1]}"
        pair = "A/A pair" if turn.is_control else f"pair {self._num_pairs + 1} of {limit}"
        print(f"[round {turn.number}, {pair}] {arm.text}  {seconds:.1f} s", flush=True)

    def end(self) -> int:
        """Writes and prints the result; returns the exit code."""
        result = self._result or self._judge()
        problem = ""
        try:
            report.write(result, self._folder)
        except OSError as error:  # the verdict stands all the same
            problem = f"; not all are written: {error}"
        print(f"\n{report.as_text(result)}\n\nresults: {self._folder}{problem}", flush=True)
        return result.exit_code

    def _read(self, turn: Turn) -> bool:
        """Reads a run that counts; returns False for one that does not.

        Raises:
            ConfigError: the run has another number of points than the others.
        """
        folder = self._folder / "runs" / turn.name
        ended = read_end(folder)
        if ended is None:
            return False
        self._num_points.setdefault(ended.arm, ended.num_points)
        if len(set(self._num_points.values())) > 1:
            numbers = ", ".join(f"{arm}: {count}" for arm, count in self._num_points.items())
            raise ConfigError(
                f"arms differ in their number of points, which are paired ({numbers})"
            )
        self._figures[turn.number, turn.role] = read_run(folder)
        return True

    def _judge(self) -> Result:
        return judge_runs(self._plan, self._figures, self._looks.level, self._num_rounds)

    def _look(self) -> None:
        """Takes the verdicts where a look is due; ends the comparison where it is answered."""
        self._result = None
        if self._num_pairs not in self._looks.looks:
            return
        self._result = self._judge()
        words = self._result.words
        self._is_answered = not self._looks.goes_on(self._num_pairs, words)
        if not self._is_answered:
            print(f"\n{report.as_text(self._result)}\n", flush=True)
