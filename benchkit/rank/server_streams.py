"""Protect the streams of the fork server, which alone imports this: suites may print."""

from benchkit.streams import protect_streams

protect_streams()
