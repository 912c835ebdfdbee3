"""Masks secrets in all that benchkit writes: HIDDEN replaces each value.

A secret is recognized by the name before it: a variable, a key, a header or a flag, as in
`MY_TOKEN=…`, `Authorization: Bearer …`, `--password …`. In an address it precedes the `@`.
Measurements, and the identity of a point, use the unmasked values.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from benchkit.api.keys import described_keys
from benchkit.api.registry import load_suites
from benchkit.errors import ConfigError

HIDDEN = "…"
FROM_ENVIRONMENT = re.compile(r"\$\{\s*oc\.")
"""Start of an interpolation that may read the environment: it is recorded unresolved."""
WORDS = (
    "AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "CREDENTIAL", "KEY", "LICENSE", "PASS",
    "PASSPHRASE", "PASSWD", "PASSWORD", "PSK", "PWD", "SECRET", "SESSION", "TOKEN",
)  # fmt: skip
ENDINGS = ("KEY", "PASSWD", "PASSWORD", "SECRET", "TOKEN")
"""As in APIKEY."""
HARMLESS = ("PKEY", "PKEYS")
"""Numbers of InfiniBand's partitions."""


def names_secret(name: str) -> bool:
    """Return whether a value of this name is a secret; values of suites' keys are not."""
    key = name.lstrip("+~-")
    variable = key.removeprefix("backend.env.").upper()
    parts = [word.rstrip("0123456789") for word in re.split(r"[^A-Z0-9]+", variable)]
    parts = [word for word in parts if word not in HARMLESS]
    words = [*parts, *(word.removesuffix("S") for word in parts)]
    is_announced = any(word in WORDS or word.endswith(ENDINGS) for word in words)
    if not is_announced or variable == "PWD":  # the working folder
        return False
    return not any(key in described_keys(suite.config) for suite in load_suites().values())


SCHEME = r"(?:bearer|basic|digest|token|api-?key|geniekey|splunk)\s+"
HEAD = re.compile(
    r"""(?P<address>(?<![\w.+-])(?:(?:[\w.-]+\+)*https?://|[\w.+-]+://[^/\s"':@]*:)"""
    r"""(?=[^/\s"']*@))"""
    r"""|(?<!\S)(?:-u[\s=]*|--(?:proxy-)?user[\s=]+)(?P<opening>["']?)"""
    r"""(?!\d+:\d+(?![^\s"']))[^\s"':]+:"""
    r"""|(?:(?<=(?P<quote>["']))(?P<header>[\w-]+)\s*:"""
    r"""|(?<![\w.+~/-])(?P<line>authorization|cookie):(?=\s))"""
    rf"""(?!//)\s*(?:{SCHEME})?"""
    r"""|(?<![\w.+~/-])(?:(?P<name>[\w.+~-]+)\\*["']?\s*[=:](?!//)|(?P<flag>--[\w-]+|bearer)\s)"""
    rf"""\s*(?:{SCHEME})?""",
    re.IGNORECASE,
)
"""What precedes a value: an address with a user, curl's option of one, a name or a flag.

Two numbers after --user are ids of a user and a group. A part of a path, `/key=1/`, is no name.
"""
QUOTED = r"""\\+["'].*?\\+["']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
PLAIN = rf"""(?:\$\([^()]*\)|\\\s|[^\s"',]|(?=["']\w)(?:{QUOTED})|["'](?=\w))+"""
ITEM = rf"""(?:{QUOTED}|\w*\([^()]*\)|\[[^][]*\]|\{{[^{{}}]*\}}|{PLAIN})"""
NEXT = r"\+{0,2}[A-Za-z_][\w./@]*="
VALUE = re.compile(
    rf"(?:{QUOTED})+(?:(?=[\w.$+/=-]){PLAIN})?"
    rf"|{ITEM}(?:,(?!{NEXT})(?:\s*(?=[\"']))?{ITEM})*",
    re.DOTALL,
)
"""A value in a shell or in Hydra's grammar, up to the next blank, quote, or override."""
USER = re.compile(r"""[^/\s"']+(?=@)""")
UP_TO = {
    '"': re.compile(r"""(?:(?!\\*").)+""", re.DOTALL),
    "'": re.compile(r"""(?:(?!\\*').)+""", re.DOTALL),
    "": re.compile(r"""[^"'\n]+"""),
}
"""The value of a header, or of a user, by the quote before it."""
REFERENCE = r"\{\s*(?:oc\.env:\s*)?[\w.]+\s*\}"
INTERPOLATION = re.compile(rf"""["'\\]*\${REFERENCE}["'\\]*""")
IN_SHELL = re.compile(rf"""["\\]*\$(?:[A-Za-z_]\w*|{REFERENCE}|\([^()]*\)?)["\\]*""", re.DOTALL)
"""References that are resolved at run time: `${oc.env:NAME}`; in a command also `$NAME`."""


def mask_secrets(text: str) -> str:
    """Return a text, such as a shell command, with HIDDEN in place of each secret."""
    masked, end = "", 0
    for head in HEAD.finditer(text):
        name = head["name"] or head["flag"] or head["header"]
        if head.start() < end or (name and not names_secret(name)):
            continue
        quote = head["quote"] or head["opening"] or ""
        kind = UP_TO[quote] if quote or head["line"] else USER if head["address"] else VALUE
        value = kind.match(text, head.end())
        if value and not (value[0].startswith(HIDDEN) or IN_SHELL.fullmatch(value[0])):
            masked += text[end : head.end()] + HIDDEN
            end = value.end()
    return masked + text[end:]


def mask_value(name: str, value: str) -> str:
    """Mask the value of a variable or a key."""
    if value in ("", HIDDEN) or INTERPOLATION.fullmatch(value):
        return value
    return HIDDEN if names_secret(name) else mask_secrets(value)


OVERRIDE = re.compile(r"[\w.+~@/-]+")


def mask_word(word: str) -> str:
    """Mask one word of a command line, such as an override."""
    name, is_set, value = word.partition("=")
    if not is_set or not OVERRIDE.fullmatch(name):
        return mask_secrets(word)
    return f"{name}={mask_value(name, value)}"


def mask_words(words: Sequence[str]) -> list[str]:
    return [mask_word(word) for word in words]


def has_secret(word: str, show: Callable[[str], str] = mask_word) -> bool:
    return show(word) != word


def restore_secrets(
    kept: Sequence[str],
    given: Sequence[str],
    place: str,
    show: Callable[[str], str] = mask_word,
) -> list[str]:
    """Return the words of a file, with masked ones replaced by given ones.

    Args:
        given: words with secrets, as they were typed when the file was written.
        place: the flag before the words, for error messages.
        show: the function that has masked the words of the file.

    Raises:
        ConfigError: a word is missing, or one is given that the file does not have.
    """
    unused = list(given)
    restored = []
    for word in kept:
        if HIDDEN in word and has_secret(word.replace(HIDDEN, "x"), show):
            original = next((candidate for candidate in unused if show(candidate) == word), None)
            if original is None:
                raise ConfigError(
                    f"{place}: {word}: a secret, which is not kept; "
                    f"type the word with its value behind {place}"
                )
            word = original
        if word in unused:  # or stored unmasked by an older version
            unused.remove(word)
        restored.append(word)
    if unused:
        raise ConfigError(f"{place}: {show(unused[0])}: there is no such word to fill in")
    return restored


def mask_config(config: Any, path: str = "", typed: Mapping[str, str] | None = None) -> Any:
    """Mask the secrets of a configuration.

    Args:
        config: plain data, or a part of it.
        path: dotted path of the part.
        typed: interpolations that replace values, by path, such as `${oc.env:NAME}`.
    """
    if typed and path in typed:
        return mask_value(path, typed[path])
    if isinstance(config, dict):
        below = f"{path}." if path else ""
        return {name: mask_config(item, f"{below}{name}", typed) for name, item in config.items()}
    if isinstance(config, list):
        return [mask_word(item) if isinstance(item, str) else mask_config(item) for item in config]
    if isinstance(config, int | float) and not isinstance(config, bool):
        return HIDDEN if names_secret(path) else config
    return mask_value(path, config) if isinstance(config, str) else config


def lacks_values(config: Mapping[str, Any]) -> bool:
    """Return whether a masked configuration may lack values that identify it."""
    text = msgspec.json.encode(config).decode()
    return HIDDEN in text or bool(FROM_ENVIRONMENT.search(text))
