"""Runs `python -m analysis` and `benchkit-analysis`."""

from benchkit.stopping import end, end_when_told


def main() -> None:
    end_when_told()
    from analysis.cli import main as run

    end(run())


if __name__ == "__main__":
    main()
