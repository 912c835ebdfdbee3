"""Prefill and decode on a split sequence."""
