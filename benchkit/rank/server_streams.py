"""Protects the streams of the fork server, which alone imports this.

Suites are loaded there, and may print.
"""

from benchkit.streams import protect_streams

protect_streams()
