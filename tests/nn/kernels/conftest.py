import os
import shutil

import pytest

from fullrank.nn.kernels import loops


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The compiled loops in a file of their own, which is not there if there is no
    compiler."""
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        return tmp_path_factory.mktemp("cache") / "not built"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return loops.build()


@pytest.fixture(scope="module")
def with_loops(library):
    """Let the backend "native" run, and "auto" choose it, for a file of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "library_file", lambda: library)
        loops.forget()
        yield
    loops.forget()
