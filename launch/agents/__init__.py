"""The agents of one run: they join, exchange messages, compare clocks and take turns on hosts."""
