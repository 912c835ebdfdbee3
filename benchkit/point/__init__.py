"""One point of a sweep, from its configuration to its record."""
