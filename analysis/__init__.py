"""Turns records into tables, plots and sentences.

Reads files only: no torch, no hydra.
"""
