"""The HTTP interface: predictions, and what is known about the models."""

import asyncio
import io
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from fullrank.data.tables import table_text, text_table
from fullrank.data.workers import batched
from fullrank.errors import DataError, FullrankError, nearest
from fullrank.serve.batching import Batcher, Busy, TimeLimited, plainly
from fullrank.serve.guard import Guard
from fullrank.serve.lab import LabAnswer, LabQuestion
from fullrank.serve.models import ModelCard, Prediction, ServedModel
from fullrank.serve.studio import Explained, Question, Studio
from fullrank.version import __version__

#: How many blocks of one request are under way, so that no process waits for it.
BLOCKS_AHEAD = 3
#: Drawings, explanations and the lab: how many are computed at once, for how long, and
#: how many may wait.
ASIDE_AT_ONCE, ASIDE_SECONDS, ASIDE_ROOM = 8, 30.0, 256
_STATIC = Path(__file__).parent / "static"
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src "
    "'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
}
_LOCAL = ("localhost", "127.0.0.1", "[::1]", "::1")


@dataclass(frozen=True)
class Limits:
    """What one request and all of them together may ask for.

    Attributes:
        upload: Bytes of a request.
        memory: Bytes of all requests that are being answered.
        rows: Molecules that may wait for a model.
        seconds: Until a request is answered.
    """

    upload: int = 10_000_000
    memory: int = 500_000_000
    rows: int = 20_000
    seconds: float = 60.0


class Problem(BaseModel):
    """Why a request was not answered."""

    detail: str


class Health(BaseModel):
    """That the server answers."""

    status: str = "ok"
    version: str = __version__
    models: list[str]


class Models(BaseModel):
    """The models that can be asked."""

    models: list[ModelCard]


class Molecules(BaseModel):
    """The molecules to predict for."""

    smiles: list[str] = Field(max_length=100_000, examples=[["CCO", "c1ccccc1"]])


class Unexplained(BaseModel):
    """A molecule whose prediction is to be explained.

    Attributes:
        target: Which target or class; by default the first target, or the class that
            is predicted.
    """

    smiles: str = Field(examples=["CCO"])
    target: str | None = None


class Predictions(BaseModel):
    """A prediction for each molecule, in the order of the request."""

    model: str
    predictions: list[Prediction]


_BLOCK = TypeAdapter(list[Prediction])
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": text}
    for code, text in {
        400: "The request cannot be read.",
        401: "The token is missing or wrong.",
        404: "There is no such model.",
        413: "The request is too large.",
        415: "The body is neither JSON nor CSV.",
        422: "The request cannot be understood.",
        503: "Too many requests are waiting: try again after `Retry-After` seconds.",
        504: "The answer took too long.",
    }.items()
}


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The errors that an operation documents."""
    return {code: _PROBLEMS[code] for code in (400, 401, *codes)}


def create_app(
    models: Mapping[str, ServedModel],
    limits: Limits | None = None,
    token: str | None = None,
    local: bool = True,
) -> FastAPI:
    """The application.

    Args:
        models: What it predicts with, by name.
        limits: What may be asked for.
        token: What every request must hold; None for none.
        local: Whether it is for this machine only, and answers no request that
            names another host, such as one from a page whose name was bound anew.
    """
    limits = limits or Limits()
    predictors = {name: model.predictor for name, model in models.items()}
    # What is not a prediction waits for nobody's predictions.
    aside = Batcher(
        TimeLimited(Studio(predictors), ASIDE_SECONDS), list, ASIDE_AT_ONCE, ASIDE_ROOM
    )

    async def answer(question: Question | LabQuestion) -> Any:
        async with asyncio.timeout(limits.seconds):
            (found,) = await aside.answers([question])
        if isinstance(found, DataError):
            raise DataError(plainly(str(found)))
        return found

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # Whatever fails, fails before the first request.
        await asyncio.gather(*(m.batcher.answers(["C"]) for m in models.values()))
        yield
        for batcher in (aside, *(model.batcher for model in models.values())):
            batcher.close()

    app = FastAPI(
        title="fullrank",
        version=__version__,
        description="Predictions of graph neural networks for molecules.",
        lifespan=lifespan,
        docs_url=None,  # both load scripts from another host
        redoc_url=None,
    )
    if local:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(_LOCAL))
    app.add_middleware(Guard, token=token, upload=limits.upload, memory=limits.memory)
    _answer_errors(app)

    async def chosen(
        model: Annotated[
            str | None, Query(description="Its name; by default the first one.")
        ] = None,
    ) -> ServedModel:
        name = next(iter(models), "") if model is None else model
        if name not in models:
            raise HTTPException(
                404, f"there is no model {name!r}{nearest(name, models)}"
            )
        return models[name]

    @app.get("/health", responses=problems())
    async def health() -> Health:
        """Whether the server answers."""
        return Health(models=list(models))

    @app.get("/models", responses=problems())
    async def list_models() -> Models:
        """What the models predict, and what they were trained on."""
        return Models(models=[model.card for model in models.values()])

    @app.post(
        "/predict",
        response_model=Predictions,
        responses={
            **problems(404, 413, 415, 422, 503, 504),
            200: {
                "description": "The predictions; for a table, the table with them.",
                "content": {"text/csv": {"schema": {"type": "string"}}},
            },
        },
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {"schema": Molecules.model_json_schema()},
                    "text/csv": {"schema": {"type": "string"}, "example": "smiles\nC"},
                },
            }
        },
    )
    async def predict(
        request: Request,
        model: Annotated[ServedModel, Depends(chosen)],
        column: Annotated[
            str | None,
            Query(description="Of the SMILES in a table; by default as in training."),
        ] = None,
    ) -> StreamingResponse:
        """Predict for molecules.

        A molecule that cannot be predicted has a reason in its place.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind not in ("application/json", "text/csv"):
            raise HTTPException(
                415, f"send application/json or text/csv, not {kind or 'nothing'}"
            )
        body = await request.body()
        if kind == "text/csv":
            table = await asyncio.to_thread(_read_table, body, model, column)
            rows = await _predicted(model, table.smiles, limits.seconds)
            return StreamingResponse(_csv(model, table, rows), media_type="text/csv")
        smiles = Molecules.model_validate_json(body).smiles
        rows = await _predicted(model, smiles, limits.seconds)
        text = _json(model, smiles, rows)
        return StreamingResponse(text, media_type="application/json")

    @app.get(
        "/draw",
        response_class=Response,
        responses={
            **problems(422, 503, 504),
            200: {"content": {"image/svg+xml": {"schema": {"type": "string"}}}},
        },
    )
    async def draw(smiles: Annotated[str, Query(examples=["CCO"])]) -> Response:
        """Draw a molecule."""
        picture = await answer(Question(smiles))
        return Response(picture, media_type="image/svg+xml")

    @app.post("/explain", responses=problems(404, 413, 422, 503, 504))
    async def explain(
        asked: Unexplained, model: Annotated[ServedModel, Depends(chosen)]
    ) -> Explained:
        """Say what each atom and bond contributes to a prediction."""
        return await answer(Question(asked.smiles, model.name, asked.target))

    @app.post("/lab", responses=problems(413, 422, 503, 504))
    async def lab(asked: LabQuestion) -> LabAnswer:
        """Look for a second neighbourhood with the same output of a layer."""
        return await answer(asked)

    _add_page(app)
    return app


def _add_page(app: FastAPI) -> None:
    """The page and its parts, read once: no request names a file."""
    for file in sorted(_STATIC.iterdir()):
        content = file.read_bytes()
        kind = _KINDS[file.suffix]
        path = "/" if file.name == "index.html" else f"/{file.name}"

        async def page(content: bytes = content, kind: str = kind) -> Response:
            return Response(content, media_type=kind, headers=_PAGE_HEADERS)

        app.add_api_route(path, page, include_in_schema=False)


def _answer_errors(app: FastAPI) -> None:
    """Turn errors into sentences."""

    def problem(status: int, detail: str, **headers: str) -> JSONResponse:
        return JSONResponse({"detail": detail}, status, headers)

    @app.exception_handler(Busy)
    async def busy(_: Request, error: Busy) -> JSONResponse:
        return problem(503, str(error), **{"Retry-After": "1"})

    @app.exception_handler(TimeoutError)
    async def late(_: Request, error: TimeoutError) -> JSONResponse:
        return problem(504, "the answer took too long; ask for less at once")

    @app.exception_handler(FullrankError)
    async def wrong(_: Request, error: FullrankError) -> JSONResponse:
        return problem(422, str(error))

    @app.exception_handler(ValidationError)
    @app.exception_handler(RequestValidationError)
    async def invalid(
        _: Request, error: ValidationError | RequestValidationError
    ) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        return problem(422, f"{place}: {first['msg']}")


@dataclass(frozen=True)
class _Table:
    """An uploaded table.

    Attributes:
        header: Its columns without those that predictions replace.
        cells: Of these columns, for each row.
        smiles: For each row the molecule, or why it is not a row of the table.
    """

    header: list[str]
    cells: list[list[str]]
    smiles: list[str | DataError]


def _read_table(body: bytes, model: ServedModel, column: str | None) -> _Table:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"the table is not UTF-8 text ({error})") from None
    table = text_table(Path("the table"), io.StringIO(text, newline=""))
    place = table.column(column or model.card.smiles)
    kept = [i for i, name in enumerate(table.header) if name not in model.columns]
    cells, smiles = [], []
    for row in table:
        problem = table.misfit(row.cells)
        padded = row.cells + [""] * len(table.header)
        cells.append([padded[i] for i in kept])
        smiles.append(DataError(problem) if problem else padded[place])
    return _Table([table.header[i] for i in kept], cells, smiles)


async def _predicted(
    model: ServedModel, smiles: Sequence[Any], seconds: float
) -> AsyncIterator[list[list[Any]]]:
    """Blocks of rows; the first one is there when this returns, so that a server that
    is busy or slow still says so."""
    deadline = asyncio.get_running_loop().time() + seconds
    blocks = deque(batched(smiles, model.batcher.at_once))
    if not blocks:
        return _later(model, blocks, deadline, seconds)
    async with asyncio.timeout_at(deadline):
        first = await model.batcher.answers(blocks.popleft())
    return _later(model, blocks, deadline, seconds, first)


async def _later(
    model: ServedModel,
    blocks: deque[list[Any]],
    deadline: float,
    seconds: float,
    first: list[list[Any]] | None = None,
) -> AsyncIterator[list[list[Any]]]:
    """The first block, and all others; rows that are late have that as their reason."""
    late = [*[None] * (len(model.columns) - 1), f"not predicted within {seconds:g} s"]
    if first is not None:
        yield first
    under_way: deque[tuple[int, asyncio.Task[list[list[Any]]]]] = deque()
    try:
        while blocks or under_way:
            while blocks and len(under_way) < BLOCKS_AHEAD:
                block = blocks.popleft()
                task = asyncio.create_task(_patiently(model, block))
                under_way.append((len(block), task))
            size, task = under_way.popleft()
            try:
                async with asyncio.timeout_at(deadline):
                    rows = await task
            except TimeoutError:
                rows = [late] * size
            yield rows
    finally:
        for _, task in under_way:
            task.cancel()


async def _patiently(model: ServedModel, block: list[Any]) -> list[list[Any]]:
    """The rows of a block, as soon as there is room for it."""
    while True:
        with suppress(Busy):
            return await model.batcher.answers(block)
        await asyncio.sleep(0.05)


async def _csv(
    model: ServedModel, table: _Table, blocks: AsyncIterator[list[list[Any]]]
) -> AsyncIterator[str]:
    yield table_text([[*table.header, *model.columns]])
    cells = iter(table.cells)
    async for rows in blocks:
        yield table_text([*next(cells), *row] for row in rows)


async def _json(
    model: ServedModel, smiles: Iterable[str], blocks: AsyncIterator[list[list[Any]]]
) -> AsyncIterator[bytes]:
    given = iter(smiles)
    yield b'{"model":' + TypeAdapter(str).dump_json(model.name) + b',"predictions":['
    separator = b""
    async for rows in blocks:
        found = [model.prediction(next(given), row) for row in rows]
        yield separator + _BLOCK.dump_json(found)[1:-1]
        separator = b","
    yield b"]}"
