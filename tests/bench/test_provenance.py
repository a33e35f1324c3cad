import platform

import torch

from fullrank import __version__
from fullrank.bench.provenance import provenance


def test_it_names_the_versions_in_use():
    found = provenance()
    assert found.fullrank == __version__
    assert found.python == platform.python_version()
    assert found.torch == torch.__version__
