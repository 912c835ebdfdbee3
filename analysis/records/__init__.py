"""Turns record files into rows: finds them, checks them, and derives their figures."""
