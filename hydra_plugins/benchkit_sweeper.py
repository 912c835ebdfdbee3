"""The only place that Hydra takes plugins from: benchkit's sweeper as hydra/sweeper=benchkit."""

from hydra.core.config_store import ConfigStore

from benchkit.sweep import sweeper


class Sweeper(sweeper.Sweeper):
    """benchkit.sweep.sweeper.Sweeper under the name that Hydra accepts."""


ConfigStore.instance().store(
    group="hydra/sweeper",
    name="benchkit",
    node={
        "_target_": f"{__name__}.Sweeper",
        "params": None,
        "only_check": False,
        "resume": None,
        "retry": "none",
        "force": False,
    },
    provider="benchkit",
)
