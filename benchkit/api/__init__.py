"""Holds all that a suite imports: schema, keys, cases, regions, verification, transfers, memory."""
