"""Sweeps are asked about on the command line."""

from tests.cli.conftest import told as told
