"""Fresh environments outside the clone, with the wheel as a user installs it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TORCH = "import importlib.metadata as m; print(m.version('torch'))"


def built(folder: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution of this clone."""
    command = [sys.executable, "-m", "build", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    (source,) = folder.glob("*.tar.gz")
    return wheel, source


class Fresh:
    """An environment with the wheel and one of its extras."""

    def __init__(self, folder: Path, wheel: Path, extra: str = "") -> None:
        self.folder = folder
        self.wheel = wheel
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        data = str(self.home / "data")
        self.variables = {**kept, "FULLRANK_ROOT": data, "COLUMNS": "200"}
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        # torch first, as its pinned version: any other may bring gigabytes.
        self._pip("torch")
        self.torch = self.python(_TORCH)
        self.install(extra)

    def install(self, extra: str) -> None:
        """Install the wheel with an extra; torch stays as it is."""
        self._pip(f"{self.wheel}[{extra}]" if extra else str(self.wheel))
        assert self.python(_TORCH) == self.torch

    def _pip(self, what: str) -> None:
        constraints = ("--constraint", ROOT / "constraints.txt")
        # Compiling all of torch and its companions takes longer than using a part.
        self.run("pip", "install", "--quiet", "--no-compile", *constraints, what)

    def run(self, program: str, *arguments: str | Path, status: int = 0) -> str:
        """What a program of the environment says; its status must be as expected."""
        with self.running(program, *arguments) as process:
            said, _ = process.communicate()
        assert process.returncode == status, said
        return said

    @contextmanager
    def running(
        self, program: str, *arguments: str | Path
    ) -> "Iterator[subprocess.Popen[str]]":
        """A program of the environment, which is terminated at the end."""
        with subprocess.Popen(
            [self.folder / "env" / "bin" / program, *arguments],
            cwd=self.home,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.terminate()

    def python(self, code: str) -> str:
        return self.run("python", "-c", code)
