import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def _figures_are_let_go():
    yield
    plt.close("all")
