import pytest

from release.environments import built


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    """The wheel and the source distribution of this clone."""
    return built(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def wheel(distributions):
    return distributions[0]
