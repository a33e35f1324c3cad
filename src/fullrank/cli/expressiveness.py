"""``fullrank expressiveness``: the pairs of graphs that layers distinguish."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from fullrank.bench.expressiveness import Contestant
    from fullrank.lab import PairSuite

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
    model: list[str] = typer.Option(
        [],
        "--model",
        help="Only the model of this name, or models whose name contains this; may be "
        "repeated.",
    ),
    protocol: str = typer.Option(
        "exact",
        "--protocol",
        help="exact: random weights, float64; rpc: BREC's own procedure, which trains "
        "every model on every pair.",
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
    With `--protocol rpc`, BREC takes 4 to 13 minutes per GraphNet on one core;
    OUT.jsonl has a line for each model.
    """
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.progress import track

    from fullrank.bench import expressiveness as bench
    from fullrank.errors import ConfigError
    from fullrank.lab import load_suite
    from fullrank.lab.graphs.brec import PROTOCOLS

    if protocol not in PROTOCOLS:
        raise ConfigError(f"--protocol is {' or '.join(PROTOCOLS)}, got {protocol!r}")
    if protocol == "rpc":
        suite = ["brec"]
    suites = [load_suite(name, folder) for name in suite]
    chosen = _chosen(model)
    console = Console(stderr=True)
    if protocol == "rpc":
        _compare(chosen, suites[0], relabelings, out, console)
        return
    jobs = [(each, pairs) for each in chosen for pairs in suites]
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


def _chosen(wanted: list[str]) -> "list[Contestant]":
    """The models with these names, or with these in their names."""
    from fullrank.bench.expressiveness import contestants
    from fullrank.errors import ConfigError

    known = contestants()
    names = [each.name for each in known]
    found: set[str] = set()
    for text in wanted or [""]:
        exactly = {name for name in names if name.lower() == text.lower()}
        matching = exactly or {name for name in names if text.lower() in name.lower()}
        if not matching:
            raise ConfigError(
                f"no model is called {text!r}; choose one of {', '.join(names)}"
            )
        found |= matching
    return [each for each in known if each.name in found]


def _compare(
    chosen: "list[Contestant]",
    suite: "PairSuite",
    relabelings: int | None,
    out: Path | None,
    console: "Console",
) -> None:
    """Run BREC's own procedure; what is done is written after each model."""
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.progress import Progress

    from fullrank.bench.rpc import compare, save, to_markdown
    from fullrank.lab import RPC

    settings = RPC() if relabelings is None else RPC(relabelings=relabelings)
    rows = []
    with Progress(console=console) as bar:
        for each in chosen:
            bar.add_task(each.name, total=len(suite))
            rows.append(
                compare(each, suite, settings, lambda _: bar.advance(bar.task_ids[-1]))
            )
            if out is not None:
                save(rows, out)
    Console().print(Markdown(to_markdown(rows)))


def _share(text: str) -> tuple[int, int]:
    """K and N of "K/N"."""
    from fullrank.errors import ConfigError

    which, _, count = text.partition("/")
    if which.isdecimal() and count.isdecimal() and 1 <= int(which) <= int(count):
        return int(which), int(count)
    raise ConfigError(f"a share is K/N with K from 1 to N, such as 1/2, got {text!r}")
