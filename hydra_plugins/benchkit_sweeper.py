"""Registers hydra/sweeper=benchkit with Hydra, which finds plugins only in this package."""

from hydra.core.config_store import ConfigStore

from benchkit.sweep import sweeper


class Sweeper(sweeper.PointSweeper):
    """Subclass in this package, as Hydra requires it of a plugin."""


ConfigStore.instance().store(
    group="hydra/sweeper",
    name="benchkit",
    node={
        "_target_": f"{__name__}.Sweeper",
        "params": None,
        "only_check": False,
        "dry_run": False,
        "resume": None,
        "retry": "none",
        "force": False,
    },
    provider="benchkit",
)
