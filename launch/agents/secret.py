"""The secret that agents know before they meet: of the environment, or a name of the start."""

import hashlib
import os
from typing import NamedTuple

from launch.agents.address import Endpoint
from launch.agents.messages import JoinError
from launch.launcher_env import LaunchContext

SECRET_VARIABLE = "BENCHKIT_SECRET"
"""The secret of agents on hosts without a shared folder."""
FEWEST_LETTERS = 16
CHOICES = f"""choose one for every host:
  {SECRET_VARIABLE}=WORD in the environment: a secret that only these agents know
  trust_network=true: every user of these hosts and of this network is trusted"""


class Secret(NamedTuple):
    """A secret that all agents know before they meet; without one, agent 0 makes a random one.

    `is_guessable`: users of these hosts and of this network may guess it.
    """

    key: str = ""
    is_guessable: bool = False


def known_secret(started: LaunchContext, master: Endpoint | None, trusts_network: bool) -> Secret:
    """Return the secret of the environment; the name of the start between hosts that are trusted.

    Raise JoinError as key_of() does.
    """
    if key := key_of(os.environ.get(SECRET_VARIABLE, "")):
        return Secret(key)
    if trusts_network and not started.is_one_host:
        return Secret(started.job or str(master), is_guessable=True)
    return Secret()


def key_of(secret: str) -> str:
    """Return the key that agents derive from the word in SECRET_VARIABLE; "" without one.

    Who poses as agent 0 gets a proof by which words can be tried: scrypt makes each try dear.
    Raise JoinError for a word that is soon found all the same, and where Python has no scrypt, as
    under FIPS.
    """
    if not secret:
        return ""
    if len(secret) < FEWEST_LETTERS:
        length = f"{len(secret)} character" + "s" * (len(secret) > 1)
        allowed = f"allowed are {FEWEST_LETTERS} and more, as from openssl rand -hex 16"
        raise JoinError(f"{SECRET_VARIABLE} has {length}; {allowed}")
    word = secret.encode(errors="surrogateescape")
    try:
        return hashlib.scrypt(word, salt=b"benchkit agents", n=1 << 14, r=8, p=1, dklen=32).hex()
    except (AttributeError, ValueError) as error:
        advice = "unset it on every host; agents then need a shared folder, or trust_network=true"
        raise JoinError(f"{SECRET_VARIABLE}: no scrypt on this host ({error}); {advice}") from None
