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
) -> None:
    """Count the pairs that each layer tells apart, from untrained random weights.

    All of it takes about 25 minutes of one core, `--relabelings 2` about 5.
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
    rows = [bench.bound(pairs) for pairs in suites]
    jobs = [(each, pairs) for each in chosen for pairs in suites]
    console = Console(stderr=True)
    for each, pairs in track(jobs, "Telling apart", console=console):
        rows.append(bench.measure(each, pairs, relabelings))
    result = bench.Result(bench.setup(), rows)
    Console().print(Markdown(result.to_markdown()))
    if out is not None:
        result.save(out)
