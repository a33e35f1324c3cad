"""Settings of the whole suite."""

import os

import pytest
import torch
from hypothesis import settings

# pytest-xdist runs one process per core: a second thread in each, or in the programs
# that the tests start, would only wait.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"

# How long an example takes says more about the machine than about the code.
settings.register_profile("fullrank", deadline=None)
settings.load_profile("fullrank")


def pytest_collection_modifyitems(items):
    """Begin with the tests that may take longest: at the end, others would wait."""

    def limit(item):
        marker = item.get_closest_marker("timeout")
        return marker.args[0] if marker else 0

    items.sort(key=limit, reverse=True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Give every test the same networks each time: one in a hundred small ones is dead
    from the start, and shows nothing."""
    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def root_of_session(tmp_path_factory):
    """Keep prepared sets out of the user's cache; tests of a session share them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FULLRANK_ROOT", str(tmp_path_factory.mktemp("root")))
        yield


@pytest.fixture
def one_thread():
    """As in the programs that tests start: sums are the same to the last bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
