"""Brings ranks to life, watches them and puts them to rest. Knows nothing of benchmarks."""
