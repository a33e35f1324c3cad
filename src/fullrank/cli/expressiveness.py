"""``fullrank expressiveness``: the pairs of graphs that layers distinguish."""

from pathlib import Path

import typer

app = typer.Typer(add_completion=False)


@app.command()
def expressiveness(
    folder: Path | None = typer.Option(
        None,
        "--folder",
        help="Contains brec/*.g6, EXP.txt, sr251256.g6 and graph8c.g6; not for csl.",
    ),
    suite: list[str] = typer.Option(
        ["brec", "exp", "sr25", "csl", "graph8c"],
        "--suite",
        help="A suite of pairs; may be repeated.",
    ),
    model: str = typer.Option(
        "", "--model", help="Only models whose name contains this."
    ),
    relabelings: int | None = typer.Option(
        None, "--relabelings", min=2, help="Relabelings per graph; 32 for BREC, else 4."
    ),
    out: Path | None = typer.Option(None, "--out", help="Write OUT.json and OUT.md."),
    join: Path | None = typer.Option(
        None, "--join", help="Add the rows of an earlier OUT.json."
    ),
    parts: Path | None = typer.Option(
        None,
        "--parts",
        help="Store the results of BREC in this folder, ten pairs per file, and "
        "measure only the missing ones.",
    ),
    share: str = typer.Option(
        "1/1",
        "--share",
        help="With --parts: measure only share K of N and write no table, so that N "
        "processes can share the work.",
    ),
) -> None:
    """Count the pairs that each layer distinguishes with random weights.

    The whole table takes about 45 minutes on one core, or 20 with `--relabelings 2`.
    """
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.progress import track

    from fullrank.bench import expressiveness as bench
    from fullrank.errors import ConfigError
    from fullrank.lab import load_suite

    suites = [load_suite(name, folder) for name in suite]
    chosen = [
        each for each in bench.contestants() if model.lower() in each.name.lower()
    ]
    if not chosen:
        names = ", ".join(each.name for each in bench.contestants())
        raise ConfigError(f"no model is called {model!r}; choose one of {names}")
    jobs = [(each, pairs) for each in chosen for pairs in suites]
    console = Console(stderr=True)
    kept = bench.Parts(relabelings, parts)
    if share != "1/1":
        which, count = _share(share)
        every = [(*job, part) for job in jobs for part in bench.split(job[1])]
        for job in track(every[which - 1 :: count], "Measuring", console=console):
            kept.get(*job)
        return
    rows = [bench.bound(pairs) for pairs in suites]
    for each, pairs in track(jobs, "Measuring", console=console):
        rows.append(bench.measure(each, pairs, parts=kept))
    result = bench.Result(bench.setup(), rows)
    if join is not None:
        result = result.joined(bench.Result.read(join))
    Console().print(Markdown(result.to_markdown()))
    if out is not None:
        result.save(out)


def _share(text: str) -> tuple[int, int]:
    """K and N of "K/N"."""
    from fullrank.errors import ConfigError

    which, _, count = text.partition("/")
    if which.isdecimal() and count.isdecimal() and 1 <= int(which) <= int(count):
        return int(which), int(count)
    raise ConfigError(f"a share is K/N with K from 1 to N, such as 1/2, got {text!r}")
