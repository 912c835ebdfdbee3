"""Implementations per shape."""
