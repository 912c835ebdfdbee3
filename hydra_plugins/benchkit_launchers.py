"""The only place that Hydra takes plugins from: benchkit's launchers; conf/launcher names them."""

from hydra.core.config_store import ConfigStore

from benchkit.sweep import launchers, submitit_launcher


class InPlace(launchers.InPlace):
    """One point after another in this process."""


class Slurm(submitit_launcher.Submitting):
    """Each point a job of an array."""

    cluster = "slurm"


class PackedSlurm(Slurm):
    """All points in one allocation."""

    packed = True


class Local(submitit_launcher.Submitting):
    """Each point a job of its own on this machine."""

    cluster = "local"


ConfigStore.instance().store(
    group="hydra/launcher", name="benchkit", node={"_target_": f"{__name__}.InPlace"}, provider="benchkit"
)
