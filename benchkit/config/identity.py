"""The identity of a point: a digest of the keys that define its measurement."""

import hashlib
from dataclasses import fields
from typing import Any

import msgspec

from benchkit.api.keys import RunConfig, nested_schema
from benchkit.api.registry import load_suites
from benchkit.record.record import PlainConfig


def point_id(config: PlainConfig, world_size: int) -> str:
    """Return the digest of a resolved configuration, with its number of ranks."""
    return digest({**identity_of(config), "world_size": world_size})


def identity_of(config: PlainConfig) -> PlainConfig:
    """Return a configuration without the keys that its suite declares with `identity=False`.

    For a suite that is not installed, only the keys common to all suites are known.
    """
    suite = load_suites().get(str(config.get("suite")))
    return identifying_keys(config, suite.config if suite else RunConfig)


def identifying_keys(config: PlainConfig, schema: type) -> PlainConfig:
    """Return a configuration, or a group of it, without the keys that do not identify a point.

    Args:
        config: plain data; keys that the schema lacks, as old records have them, are kept.
    """
    declared = {item.name: item for item in fields(schema)}
    identifying = {}
    for name, value in config.items():
        item = declared.get(name)
        key = item.metadata["key"] if item else None
        if key and (not key.identity or (key.neutral is not None and value == key.neutral)):
            continue
        group = nested_schema(item.type) if item and isinstance(value, dict) else None
        identifying[name] = identifying_keys(value, group) if group else value
    return identifying


def digest(value: Any) -> str:
    """Return 12 hexadecimal digits of the SHA-256 hash of plain data."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:12]
