"""Hydra's loader and its configuration of a sweep, as benchkit's sweeper is given them."""

import pytest
from benchkit.config import compose
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.utils import setup_globals
from hydra.types import RunMode

from tests.support.cli import ROOT


@pytest.fixture(scope="module")
def loader():
    compose.register()
    setup_globals()
    return ConfigLoaderImpl(create_config_search_path(str(ROOT / "conf")))


@pytest.fixture(scope="module")
def master(loader):
    return loader.load_configuration("config", ["hydra.verbose=true"], run_mode=RunMode.MULTIRUN)
