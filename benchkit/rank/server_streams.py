"""Protect the streams of the fork server: suites may print. Imported only there."""

from benchkit.streams import protect_streams

protect_streams()
