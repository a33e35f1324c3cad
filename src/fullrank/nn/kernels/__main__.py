"""``python -m fullrank.nn.kernels``: build the compiled loops."""

from fullrank.nn.kernels.loops import build

print(build())
