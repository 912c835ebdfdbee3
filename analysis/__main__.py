"""Entry point of `python -m analysis` and `benchkit-analysis`."""

from benchkit import early_signals


def main() -> None:
    early_signals.run_command_line(analyse)


def analyse() -> int:
    from analysis.cli import main

    return main()


if __name__ == "__main__":
    main()
