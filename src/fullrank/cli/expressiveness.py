"""``fullrank expressiveness``: the pairs of graphs that layers tell apart."""

from pathlib import Path

import typer

app = typer.Typer(add_completion=False)


@app.command()
def expressiveness(
    folder: Path | None = typer.Option(
        None,
        "--folder",
        help="Holds brec/*.g6, EXP.txt, sr251256.g6 and graph8c.g6; csl needs none.",
    ),
    suite: list[str] = typer.Option(
        ["brec", "exp", "sr25", "csl", "graph8c"], "--suite", help="May be repeated."
    ),
    model: str = typer.Option("", "--model", help="Only models with this in the name."),
    relabelings: int | None = typer.Option(
        None, "--relabelings", min=2, help="Of every graph; 32 for BREC, 4 for others."
    ),
    out: Path | None = typer.Option(
        None, "--out", help="Write OUT.json and OUT.md, without the ending."
    ),
    join: Path | None = typer.Option(
        None, "--join", help="Add the rows of this earlier OUT.json, with their commit."
    ),
    parts: Path | None = typer.Option(
        None,
        "--parts",
        help="Keep the result of every 10 pairs of BREC in this folder, and measure "
        "only those that it does not hold.",
    ),
    share: str = typer.Option(
        "1/1",
        "--share",
        help="With --parts, measure only part K of every N (K/N), and write no table: "
        "N processes share the work.",
    ),
) -> None:
    """Count the pairs that each layer tells apart, from untrained random weights.

    All of it takes about 45 minutes of one core, `--relabelings 2` about 20.
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
        raise ConfigError(f"no model has {model!r} in its name; there are {names}")
    jobs = [(each, pairs) for each in chosen for pairs in suites]
    console = Console(stderr=True)
    kept = bench.Parts(relabelings, parts)
    if share != "1/1":
        which, count = _share(share)
        every = [(*job, part) for job in jobs for part in bench.split(job[1])]
        for job in track(every[which - 1 :: count], "Telling apart", console=console):
            kept.get(*job)
        return
    rows = [bench.bound(pairs) for pairs in suites]
    for each, pairs in track(jobs, "Telling apart", console=console):
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
