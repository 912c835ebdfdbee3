"""The preset secret of agents: from the environment, or the name of the start."""

import hashlib
import os
from typing import NamedTuple

from launch.agents.address import Endpoint
from launch.agents.messages import JoinError
from launch.launcher_env import LaunchContext

SECRET_VARIABLE = "BENCHKIT_SECRET"
"""Environment variable: the secret of agents on hosts without a shared folder."""
FEWEST_LETTERS = 16
CHOICES = f"""choose one for every host:
  {SECRET_VARIABLE}=WORD in the environment: a secret that only these agents know
  trust_network=true: every user of these hosts and of this network is trusted"""


class Secret(NamedTuple):
    """The secret of all agents before the rendezvous; if empty, agent 0 draws a random one.

    `is_guessable`: users of these hosts and of this network may guess it.
    """

    key: str = ""
    is_guessable: bool = False


def known_secret(context: LaunchContext, master: Endpoint | None, trusts_network: bool) -> Secret:
    """Return the secret from the environment, or the name of the start if the network is trusted.

    Raise JoinError as derive_key() does.
    """
    if key := derive_key(os.environ.get(SECRET_VARIABLE, "")):
        return Secret(key)
    if trusts_network and not context.is_one_host:
        return Secret(context.job or str(master), is_guessable=True)
    return Secret()


def derive_key(secret: str) -> str:
    """Derive the key from the password in SECRET_VARIABLE by scrypt; return "" without one.

    A process that poses as agent 0 gets a proof, against which it can test passwords: scrypt makes
    each test expensive. Raise JoinError for a short password, and where Python has no scrypt, as
    under FIPS.
    """
    if not secret:
        return ""
    if len(secret) < FEWEST_LETTERS:
        length = f"{len(secret)} character" + "s" * (len(secret) > 1)
        allowed = f"allowed are {FEWEST_LETTERS} and more, as from openssl rand -hex 16"
        raise JoinError(f"{SECRET_VARIABLE} has {length}; {allowed}")
    password = secret.encode(errors="surrogateescape")
    try:
        return hashlib.scrypt(
            password, salt=b"benchkit agents", n=1 << 14, r=8, p=1, dklen=32
        ).hex()
    except (AttributeError, ValueError) as error:
        advice = "unset it on every host; agents then need a shared folder, or trust_network=true"
        raise JoinError(f"{SECRET_VARIABLE}: no scrypt on this host ({error}); {advice}") from None
