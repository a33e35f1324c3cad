"""Settings of the whole suite."""

import os

import torch

# pytest-xdist runs one process per core: a second thread in each would only wait.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
