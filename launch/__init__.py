"""Start, monitor and end the ranks of a program; nothing here depends on benchmarks."""
