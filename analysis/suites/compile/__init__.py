"""When compiling pays: cumulative times, break-even iterations, recompilations."""
