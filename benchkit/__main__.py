"""Runs `python -m benchkit`.

Every rank imports this file again, so it holds nothing but its guard.
"""

if __name__ == "__main__":
    from benchkit import stopping

    def main() -> int:
        from benchkit.siblings import require_ours
        from benchkit.streams import protect_streams

        protect_streams("benchkit")
        require_ours()
        from benchkit.start import main

        return main()

    stopping.run_command_line(main)
