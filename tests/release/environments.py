"""Fresh environments outside the clone, with the wheel as a user installs it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


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
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        # torch first, as its pinned version: any other may bring gigabytes.
        pip = ["pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
        self.run(*pip, "torch")
        self.run(*pip, f"{wheel}[{extra}]" if extra else wheel)

    def run(self, program: str, *arguments: str | Path, status: int = 0) -> str:
        """What a program of the environment says; its status must be as expected."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        done = subprocess.run(
            [self.folder / "env" / "bin" / program, *arguments],
            cwd=self.home,
            env={**kept, "FULLRANK_ROOT": str(self.home / "data"), "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    def python(self, code: str) -> str:
        return self.run("python", "-c", code)
