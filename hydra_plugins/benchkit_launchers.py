"""The only place that Hydra takes plugins from: benchkit's launchers; conf/launcher names them."""

from benchkit import submit


class Slurm(submit.Launcher):
    """Each point a job of an array."""

    cluster = "slurm"


class PackedSlurm(Slurm):
    """All points in one allocation."""

    packed = True


class Local(submit.Launcher):
    """Each point a job of its own on this machine."""

    cluster = "local"
