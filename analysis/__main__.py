"""Runs `python -m analysis` and `benchkit-analysis`."""

from benchkit import stopping


def main() -> None:
    stopping.run_command_line(analyse)


def analyse() -> int:
    from analysis.cli import main

    return main()


if __name__ == "__main__":
    main()
