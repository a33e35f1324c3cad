"""The environment that notebooks run in: one thread, drawings as SVG, own caches."""

import os
import sys
from pathlib import Path

IPYTHON = """\
c = get_config()
c.InlineBackend.figure_formats = {"svg"}
c.HistoryManager.enabled = False
c.Application.log_level = 40
"""
MATPLOTLIB = """\
figure.figsize: 6.4, 3.2
figure.constrained_layout.use: True
axes.spines.top: False
axes.spines.right: False
axes.prop_cycle: cycler("color", ["0072B2", "D55E00", "009E73", "CC79A7", "E69F00"])
font.size: 10
legend.frameon: False
svg.fonttype: none
svg.hashsalt: fullrank
"""


def prepare(build: Path) -> None:
    """Write the settings into ``build`` and point the kernels to them."""
    profile = build / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_config.py").write_text(IPYTHON)
    (build / "matplotlibrc").write_text(MATPLOTLIB)
    root = Path(__file__).parents[2]
    places = [str(root / "src"), os.environ.get("PYTHONPATH", "")]
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    os.environ |= {
        "IPYTHONDIR": str(build / "ipython"),
        "MATPLOTLIBRC": str(build / "matplotlibrc"),
        "FULLRANK_ROOT": str(build / "data"),
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
        "PATH": os.pathsep.join(programs),
        "PYTHONWARNINGS": "ignore",
        "COLUMNS": "88",
        "NO_COLOR": "1",
        "TTY_COMPATIBLE": "0",  # no progress bars, although IPython has a terminal
        "TTY_INTERACTIVE": "0",
    }
    os.environ.setdefault("OMP_NUM_THREADS", "1")
