"""What a rank reports to its agent, as JSON: {"result": value} or {"exception": details}."""

import traceback
from dataclasses import is_dataclass
from typing import Any

import msgspec

from launch.framing import REPORT_BYTES
from launch.ranks.logs import shorten


def result_report(result: Any) -> bytes:
    """Returns the report of a result, which the agent can read back as the type that it has.

    Raises:
        TypeError: JSON or that type has no such value, or the report is longer than REPORT_BYTES.
    """
    try:
        require_plain(result)
        content = msgspec.json.encode(result)
        msgspec.json.decode(content, type=type(result))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"result cannot be stored: {error}") from None
    report = msgspec.json.encode({"result": msgspec.Raw(content)})
    if len(report) > REPORT_BYTES:
        raise TypeError(f"result cannot be stored: {len(report)} bytes; allowed are {REPORT_BYTES}")
    return report


def require_plain(value: Any, where: str = "$") -> None:
    """Checks that a value and everything inside it can be written as JSON.

    msgspec also takes others: it writes a set as a list, bytes as base64, a number that is a key as
    text, and integers of any length, which most readers round.

    Args:
        value: of the result.
        where: its place in the result, for the message.

    Raises:
        TypeError: it is something else than text, a number, a boolean, None, or a list, a
            dictionary with text as keys or a dataclass of these.
    """
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where}: the key {key!r}; allowed is text")
            require_plain(each, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            if type(each) is not float:  # most values are samples
                require_plain(each, f"{where}[{index}]")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise TypeError(f"{where}: {value}; allowed are integers of 64 bits")
    elif not isinstance(value, str | float | None):
        raise TypeError(f"{where}: JSON has no {type(value).__name__}")


def exception_report(error: BaseException, raised_at: float) -> bytes:
    """Returns the report of an exception, shortened because agents send it on and records keep it.

    Args:
        error: the exception that is being handled.
        raised_at: when it was caught, in seconds by time.monotonic().
    """
    try:
        message = str(error)
    except Exception:  # the __str__ of the exception fails
        message = ""
    texts = {
        "message": message or type(error).__name__,
        "type": type(error).__qualname__,
        "traceback": traceback.format_exc(),
    }
    storable: dict[str, Any] = {"raised_at": raised_at}
    for name, text in texts.items():
        storable[name] = shorten(text).encode(errors="backslashreplace").decode()
    return msgspec.json.encode({"exception": storable})
