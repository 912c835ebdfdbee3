"""Keep secrets out of what benchkit writes: HIDDEN stands in the place of each value.

A secret is known by the name before it: of a variable, a key, a header or a flag, as in
`MY_TOKEN=…`, `Authorization: Bearer …`, `--password …`. In an address it is what precedes the `@`.
What is measured, and the identity of a point, come from the values before they are hidden.
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
"""Begins an interpolation that may read the environment, which is recorded as it was typed."""
WORDS = (
    "AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "CREDENTIAL", "KEY", "LICENSE", "PASS",
    "PASSPHRASE", "PASSWD", "PASSWORD", "PSK", "PWD", "SECRET", "SESSION", "TOKEN",
)  # fmt: skip
ENDINGS = ("KEY", "PASSWD", "PASSWORD", "SECRET", "TOKEN")
"""As in APIKEY."""
HARMLESS = ("PKEY", "PKEYS")
"""Numbers of InfiniBand's partitions."""


def names_secret(name: str) -> bool:
    """Return whether what has this name is a secret; keys of suites are none."""
    key = name.lstrip("+~-")
    variable = key.removeprefix("backend.env.").upper()
    found = [word.rstrip("0123456789") for word in re.split(r"[^A-Z0-9]+", variable)]
    found = [word for word in found if word not in HARMLESS]
    words = [*found, *(word.removesuffix("S") for word in found)]
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
"""What stands before a value: an address with a user, curl's name of one, a name or a flag.

Two numbers behind --user are ids of a user and a group. A part of a path, `/key=1/`, is no name.
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
"""The value of a header, or of a user, by the quote that stands before it."""
REFERENCE = r"\{\s*(?:oc\.env:\s*)?[\w.]+\s*\}"
INTERPOLATION = re.compile(rf"""["'\\]*\${REFERENCE}["'\\]*""")
IN_SHELL = re.compile(rf"""["\\]*\$(?:[A-Za-z_]\w*|{REFERENCE}|\([^()]*\)?)["\\]*""", re.DOTALL)
"""Where the value is found when it is needed: `${oc.env:NAME}`; in a command also `$NAME`."""


def mask_secrets(text: str) -> str:
    """Return a text, such as a shell command, with HIDDEN for each secret that a name announces."""
    found, end = "", 0
    for head in HEAD.finditer(text):
        name = head["name"] or head["flag"] or head["header"]
        if head.start() < end or (name and not names_secret(name)):
            continue
        quote = head["quote"] or head["opening"] or ""
        kind = UP_TO[quote] if quote or head["line"] else USER if head["address"] else VALUE
        value = kind.match(text, head.end())
        if value and not (value[0].startswith(HIDDEN) or IN_SHELL.fullmatch(value[0])):
            found += text[end : head.end()] + HIDDEN
            end = value.end()
    return found + text[end:]


def mask_value(name: str, value: str) -> str:
    """Return the value of a variable or a key as it is written down."""
    if value in ("", HIDDEN) or INTERPOLATION.fullmatch(value):
        return value
    return HIDDEN if names_secret(name) else mask_secrets(value)


OVERRIDE = re.compile(r"[\w.+~@/-]+")


def mask_word(word: str) -> str:
    """Return one word of a command line, such as an override, as it is written down."""
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
    """Return the words of a file, with the given ones in the place of those that lack a secret.

    Args:
        given: words with secrets, as they were typed when the file was written.
        place: in error messages, the flag that the words are typed behind.
        show: made the words of the file from those that were typed.

    Raises:
        ConfigError: a word is missing, or one is given that the file does not have.
    """
    left = list(given)
    found = []
    for word in kept:
        if HIDDEN in word and has_secret(word.replace(HIDDEN, "x"), show):
            same = next((each for each in left if show(each) == word), None)
            if same is None:
                raise ConfigError(
                    f"{place}: {word}: a secret, which is not kept; "
                    f"type the word with its value behind {place}"
                )
            word = same
        if word in left:  # or kept in full by an older version
            left.remove(word)
        found.append(word)
    if left:
        raise ConfigError(f"{place}: {show(left[0])}: there is no such word to fill in")
    return found


def mask_config(config: Any, path: str = "", typed: Mapping[str, str] | None = None) -> Any:
    """Return a configuration as it is written down.

    Args:
        config: plain data, or a part of it.
        path: of the part.
        typed: texts that stand for values by their paths, such as `${oc.env:NAME}`.
    """
    if typed and path in typed:
        return mask_value(path, typed[path])
    if isinstance(config, dict):
        below = f"{path}." if path else ""
        return {name: mask_config(each, f"{below}{name}", typed) for name, each in config.items()}
    if isinstance(config, list):
        return [mask_word(each) if isinstance(each, str) else mask_config(each) for each in config]
    if isinstance(config, int | float) and not isinstance(config, bool):
        return HIDDEN if names_secret(path) else config
    return mask_value(path, config) if isinstance(config, str) else config


def lacks_values(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration as it is written down may lack values that identify it."""
    text = msgspec.json.encode(config).decode()
    return HIDDEN in text or bool(FROM_ENVIRONMENT.search(text))
