"""Runs `python -m benchkit`.

Every rank imports this file again: all code is inside the guard.
"""

if __name__ == "__main__":
    from benchkit import early_signals

    def main() -> int:
        from benchkit.import_guard import refuse_shadowed_packages
        from benchkit.streams import protect_streams

        protect_streams("benchkit")
        refuse_shadowed_packages()
        from benchkit.entry_point import main

        return main()

    early_signals.run_command_line(main)
