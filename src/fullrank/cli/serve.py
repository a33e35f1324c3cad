"""``fullrank serve``: a page and an HTTP interface for predictions."""

import typer

app = typer.Typer(add_completion=False)


@app.command()
def serve(
    models: list[str] = typer.Argument(
        None,
        metavar="[MODEL]...",
        help="Model files, run folders or names of models such as qm9, each a model of "
        "its own; NAME=PATH gives one a name. A folder with several runs is an "
        "ensemble. Without any there is the lab.",
    ),
    host: str = typer.Option("127.0.0.1", help="The address to listen on."),
    port: int = typer.Option(8000, min=0, max=65535, help="The port; 0 for any."),
    token: str | None = typer.Option(
        None,
        envvar="FULLRANK_TOKEN",
        help="Answer only requests that carry this token.",
    ),
    interval: float | None = typer.Option(
        None, help="The coverage of intervals in percent; 90 where a model has them."
    ),
    workers: int = typer.Option(
        1, min=1, help="Processes that read molecules, for each model."
    ),
    max_upload: float = typer.Option(
        10, min=0.001, help="The largest request in megabytes."
    ),
    max_seconds: float = typer.Option(
        60, min=0.1, help="The longest time for a request."
    ),
    max_rows: int = typer.Option(
        20_000, min=256, help="How many molecules may wait for a model."
    ),
) -> None:
    """Serve a page and an HTTP interface that predict for molecules, and the lab.

    Only programs on this machine can connect, unless --host says otherwise.
    """
    from fullrank.extras import need

    need("fastapi")
    need("uvicorn")
    from fullrank.serve.app import Limits, create_app
    from fullrank.serve.models import load_models, served
    from fullrank.serve.run import address, listen
    from fullrank.serve.run import serve as run

    predictors = load_models(models or [])
    limits = Limits(upload=int(max_upload * 1e6), rows=max_rows, seconds=max_seconds)
    with listen(host, port) as listening:
        local = host in ("127.0.0.1", "::1", "localhost")
        ready = served(predictors, interval, limits.rows, workers)
        application = create_app(ready, limits, token or None, local)
        run(application, listening, lambda: print(address(listening), flush=True))
