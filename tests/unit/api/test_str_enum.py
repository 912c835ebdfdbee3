"""Members of an enumeration are the text that records hold."""

import json

import msgspec
from benchkit.api.str_enum import StrEnum


class Colour(StrEnum):
    RED = "red"


def test_member_equals_its_text():
    assert Colour.RED == "red"
    assert {"red": 1}[Colour.RED] == 1
    assert [str(Colour.RED), f"{Colour.RED}", "|".join(Colour)] == ["red"] * 3
    assert type(str(Colour.RED)) is str


def test_member_serializes_as_text():
    assert msgspec.json.encode([Colour.RED]) == b'["red"]'
    assert json.loads(json.dumps([Colour.RED])) == ["red"]
