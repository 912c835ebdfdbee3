"""An enumeration whose members are text, as records hold them."""

from enum import Enum


class StrEnum(str, Enum):
    """Members equal their text and are shown as it; Python has this class from 3.11 on."""

    def __str__(self) -> str:
        return str(self.value)
