"""Agree on one folder and one agenda, on all agents, before the first point."""

import contextlib
import itertools
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from benchkit.api.keys import RunConfig, as_dict
from benchkit.config.identity import digest
from benchkit.environment import checkout
from benchkit.errors import ConfigError
from benchkit.point.agent_group import AgentGroup, all_gather_facts
from benchkit.point.placement import resolve_world_size
from benchkit.record import files
from benchkit.record.naming import drop_resume_settings
from benchkit.secrets import mask_config, mask_words
from benchkit.sweep.agenda import Agenda, AgendaMessage, prepare_agenda
from benchkit.sweep.launchers import Launcher
from benchkit.sweep.manifest import Manifest, PointEntry
from benchkit.sweep.resume import Resume
from benchkit.version import __version__
from launch.agents.connect import connect_agents
from launch.agents.group import Agents
from launch.agents.messages import JoinError, Lost, SweepEnds
from launch.launcher_env import LaunchContext, detect_launcher


@dataclass(frozen=True)
class Proposal:
    """The sweep of one agent, before all agents agree.

    `resume_options` is None for a new sweep; `configs` and `entries` are those of all points.
    """

    hydra_config: DictConfig
    launcher: Launcher
    resume_options: Resume | None
    configs: Sequence[RunConfig]
    entries: Sequence[PointEntry]

    def agree(self, exit_stack: contextlib.ExitStack) -> tuple[Agents, Agenda]:
        """Connect to the other agents, then broadcast agent 0's folder and agenda.

        `exit_stack` receives the claim on the sweep's folder. Raise JoinError if the agents are
        about to run different things, ConfigError if the folder is in use or holds another sweep.
        """
        context = detect_launcher()
        traits = {
            "benchkit": __version__,
            "torch": metadata.version("torch"),
            "the command line": " ".join(mask_words(sys.argv[1:])),
            "the configuration": digest([as_dict(config) for config in self.configs]),
        }
        hydra_sweep: Any = OmegaConf.to_container(self.hydra_config.hydra.sweep, resolve=False)
        naming = str(hydra_sweep["dir"])
        config = self.configs[0]
        agents = connect_agents(
            context, traits, common_folder(naming), config.join_timeout_s, config.trust_network
        )
        conditions = start_conditions(context, agents, self.launcher)
        typed = mask_words(drop_resume_settings(sys.argv[1:]))
        wanted = Manifest(typed, conditions, list(self.entries), started_in=os.getcwd())
        world_sizes = self.world_sizes(agents)
        folder = Path(self.hydra_config.hydra.sweep.dir)
        parent = shared_parent(folder, naming)
        plain = OmegaConf.to_container(self.hydra_config, enum_to_str=True)
        settings = yaml.safe_dump(mask_config(plain), sort_keys=False, allow_unicode=True)
        agenda, problem = None, None
        if agents.first:
            try:
                agenda = prepare_agenda(
                    folder, wanted, world_sizes, self.resume_options, exit_stack
                )
                files.write_atomically(folder / "multirun.yaml", settings.encode())
            except (ConfigError, OSError) as error:
                problem = str(error)
        proposed = (agenda.message(parent) if agenda else None, problem)
        try:
            message, problem = agents.broadcast(proposed, tuple[AgendaMessage | None, str | None])
        except Lost as lost:
            raise JoinError(f"{lost} before the first point") from None
        if problem:
            raise ConfigError(problem)
        if message is None:
            raise SweepEnds("agent 0 tells neither an agenda nor why there is none")
        return agents, agenda or Agenda.from_message(message, folder, parent, len(self.entries))

    def world_sizes(self, agents: Agents) -> list[int | None]:
        """Return each point's number of ranks; None if only its job will know.

        All agents call this together.
        """
        is_auto = [config.world_size == "auto" for config in self.configs]
        if self.resume_options and self.launcher.runs_here and any(is_auto):
            group = AgentGroup(agents, all_gather_facts(agents))
            return [resolve_world_size(config, group) for config in self.configs]
        return [
            None if config.world_size == "auto" else int(config.world_size)
            for config in self.configs
        ]


def start_conditions(context: LaunchContext, agents: Agents, launcher: Launcher) -> dict[str, str]:
    """Return the software, hosts and launcher, which must be the same when a sweep is resumed."""
    code = checkout()
    shared = {
        "benchkit": __version__,
        "commit": "+".join(filter(None, (code["git_commit"], code["git_diff_hash"]))),
        "torch": metadata.version("torch"),
        "launcher": context.launcher if launcher.runs_here else type(launcher).__name__,
    }
    if not launcher.runs_here:  # Slurm chooses the hosts
        return shared
    hosts = " ".join(sorted({member.host for member in agents.members}))
    return {**shared, "hosts": hosts, "agents": str(context.num_processes)}


def common_folder(naming: str) -> Path:
    """Return the folder of the rendezvous: the part of the sweep's folder before a time stamp.

    `naming` is hydra.sweep.dir before its interpolations such as ${now:…} are resolved.
    """
    return Path(*itertools.takewhile(lambda part: "${" not in part, Path(naming).parts))


def shared_parent(folder: Path, naming: str) -> Path:
    """Return the leading parts of the sweep's folder that each agent knows by itself.

    They end before the first part that `naming` interpolates, unless from the environment or from
    Hydra's own values.
    """
    is_known = re.compile(r"(?!.*\$\{(?!oc\.env:|hydra[:.]))")
    num_unknown = len(list(itertools.dropwhile(is_known.match, Path(naming).parts)))
    return Path(*folder.parts[: max(0, len(folder.parts) - num_unknown)])
