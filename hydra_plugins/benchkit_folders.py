"""Adds the YAML folders of third-party suites to Hydra's search path."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from benchkit.api.registry import plugin_folders


class SuiteFolders(SearchPathPlugin):
    """Appends the folders: benchkit's own folder is searched first."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in plugin_folders():
            search_path.append("benchkit", f"file://{folder}")
