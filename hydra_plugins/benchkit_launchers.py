"""Registers benchkit's launchers with Hydra, which finds plugins only here; see conf/launcher."""

from hydra.core.config_store import ConfigStore

from benchkit.sweep import launchers


class InPlace(launchers.InProcessLauncher):
    """Runs one point after another in this process."""


class Slurm(launchers.SubmititLauncher):
    """Submits each point as a job of a Slurm array."""

    cluster = "slurm"


class PackedSlurm(Slurm):
    """Runs all points in one Slurm allocation."""

    packed = True


class Local(launchers.SubmititLauncher):
    """Runs each point as a job of its own on this machine."""

    cluster = "local"


ConfigStore.instance().store(
    group="hydra/launcher",
    name="benchkit",
    node={"_target_": f"{__name__}.InPlace"},
    provider="benchkit",
)
