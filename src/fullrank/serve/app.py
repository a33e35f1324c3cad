"""The HTTP interface: predictions, and information about the models."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field, ValidationError

from fullrank.errors import DataError, FullrankError, nearest
from fullrank.serve.batching import Batcher, Busy, TimeLimited, plainly
from fullrank.serve.guard import Guard
from fullrank.serve.lab import LabAnswer, LabQuestion
from fullrank.serve.models import ModelCard, Prediction, ServedModel
from fullrank.serve.predictions import as_csv, as_json, predicted, read_table
from fullrank.serve.studio import Explained, Question, Studio
from fullrank.version import __version__

#: Drawings, explanations and the lab: number of concurrent jobs, time limit in seconds,
#: and length of the queue.
ASIDE_AT_ONCE, ASIDE_SECONDS, ASIDE_ROOM = 8, 30.0, 256
_STATIC = Path(__file__).parent / "static"
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src "
    "'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
}
Choice = Callable[..., Awaitable[ServedModel]]
_LOCAL = ("localhost", "127.0.0.1", "[::1]", "::1")


@dataclass(frozen=True)
class Limits:
    """Limits of a single request and of all requests together.

    Attributes:
        upload: Maximum size of a request in bytes.
        memory: Maximum total size in bytes of all requests in progress.
        rows: Maximum number of molecules that wait for a model.
        seconds: Time limit of a request.
    """

    upload: int = 10_000_000
    memory: int = 500_000_000
    rows: int = 20_000
    seconds: float = 60.0


class Problem(BaseModel):
    """The reason why a request failed."""

    detail: str


class Health(BaseModel):
    """The status of the server."""

    status: str = "ok"
    version: str = __version__
    models: list[str]


class Models(BaseModel):
    """The available models."""

    models: list[ModelCard]


class Molecules(BaseModel):
    """The molecules to predict for."""

    smiles: list[str] = Field(max_length=100_000, examples=[["CCO", "c1ccccc1"]])


class Unexplained(BaseModel):
    """A molecule whose prediction is to be explained.

    Attributes:
        target: The target or class; by default the first target, or the predicted
            class.
    """

    smiles: str = Field(examples=["CCO"])
    target: str | None = None


class Predictions(BaseModel):
    """A prediction for each molecule, in the order of the request."""

    model: str
    predictions: list[Prediction]


_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": text}
    for code, text in {
        400: "The request is malformed.",
        401: "The token is missing or wrong.",
        404: "There is no such model.",
        413: "The request is too large.",
        415: "The body is neither JSON nor CSV.",
        422: "The request is invalid.",
        503: "Too many requests are waiting: try again after `Retry-After` seconds.",
        504: "The answer took too long.",
    }.items()
}


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The documented errors of an operation."""
    return {code: _PROBLEMS[code] for code in (400, 401, *codes)}


def create_app(
    models: Mapping[str, ServedModel],
    limits: Limits | None = None,
    token: str | None = None,
    local: bool = True,
) -> FastAPI:
    """Create the application.

    Args:
        models: The models by name.
        limits: Limits of the requests.
        token: The token that every request must contain; None for no token.
        local: Whether to serve only this machine and reject requests with another host
            name, as in DNS rebinding.
    """
    limits = limits or Limits()
    studio = Studio({name: model.predictor for name, model in models.items()})
    # Other requests do not wait for predictions.
    aside = Batcher(TimeLimited(studio, ASIDE_SECONDS), list, ASIDE_AT_ONCE, ASIDE_ROOM)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # Fail or load slowly now, not at the first request.
        await asyncio.gather(
            aside.answers([Question("C")]),
            *(model.batcher.answers(["C"]) for model in models.values()),
        )
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
    choose = _choice(models)
    app.include_router(_about(models))
    app.include_router(_predicting(choose, limits))
    app.include_router(_showing(choose, aside, limits))
    for file in sorted(_STATIC.iterdir()):
        path = "/" if file.name == "index.html" else f"/{file.name}"
        app.add_api_route(path, _page(file), include_in_schema=False)
    return app


def _choice(models: Mapping[str, ServedModel]) -> Choice:
    """The query parameter that selects a model."""

    async def choose(
        model: Annotated[
            str | None,
            Query(description="Name of the model; by default the first one."),
        ] = None,
    ) -> ServedModel:
        name = next(iter(models), "") if model is None else model
        if name not in models:
            raise HTTPException(
                404, f"there is no model {name!r}{nearest(name, models)}"
            )
        return models[name]

    return choose


def _about(models: Mapping[str, ServedModel]) -> APIRouter:
    router = APIRouter()

    @router.get("/health", responses=problems())
    async def health() -> Health:
        """Check that the server is running."""
        return Health(models=list(models))

    @router.get("/models", responses=problems())
    async def list_models() -> Models:
        """Describe the models: their predictions and training data."""
        return Models(models=[model.card for model in models.values()])

    return router


def _predicting(choose: Choice, limits: Limits) -> APIRouter:
    router = APIRouter()
    # Both kinds of body are parsed here, because FastAPI supports one per operation.
    bodies = {
        "application/json": {"schema": Molecules.model_json_schema()},
        "text/csv": {"schema": {"type": "string"}, "example": "smiles\nC"},
    }
    answers = {
        **problems(404, 413, 415, 422, 503, 504),
        200: {
            "description": "The predictions; for a table, added to the table.",
            "content": {"text/csv": {"schema": {"type": "string"}}},
        },
    }

    @router.post(
        "/predict",
        response_model=Predictions,
        responses=answers,
        openapi_extra={"requestBody": {"required": True, "content": bodies}},
    )
    async def predict(
        request: Request,
        model: Annotated[ServedModel, Depends(choose)],
        column: Annotated[
            str | None,
            Query(description="Column of the SMILES; by default as in training."),
        ] = None,
    ) -> StreamingResponse:
        """Predict for molecules.

        A molecule that cannot be predicted has a reason instead of values.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind not in bodies:
            raise HTTPException(
                415, f"send application/json or text/csv, got {kind or 'nothing'}"
            )
        body = await request.body()
        if kind == "text/csv":
            table = await asyncio.to_thread(read_table, body, model, column)
            rows = await predicted(model, table.smiles, limits.seconds)
            return StreamingResponse(as_csv(model, table, rows), media_type=kind)
        smiles = Molecules.model_validate_json(body).smiles
        rows = await predicted(model, smiles, limits.seconds)
        return StreamingResponse(as_json(model, smiles, rows), media_type=kind)

    return router


def _showing(choose: Choice, aside: Batcher, limits: Limits) -> APIRouter:
    router = APIRouter()

    async def answer(question: Question | LabQuestion) -> Any:
        async with asyncio.timeout(limits.seconds):
            (found,) = await aside.answers([question])
        if isinstance(found, DataError):
            raise DataError(plainly(str(found)))
        return found

    drawing = {"content": {"image/svg+xml": {"schema": {"type": "string"}}}}

    @router.get(
        "/draw",
        response_class=Response,
        responses={**problems(422, 503, 504), 200: drawing},
    )
    async def draw(smiles: Annotated[str, Query(examples=["CCO"])]) -> Response:
        """Draw a molecule."""
        picture = await answer(Question(smiles))
        return Response(picture, media_type="image/svg+xml")

    @router.post("/explain", responses=problems(404, 413, 422, 503, 504))
    async def explain(
        asked: Unexplained, model: Annotated[ServedModel, Depends(choose)]
    ) -> Explained:
        """Compute the contributions of atoms and bonds to a prediction."""
        return await answer(Question(asked.smiles, model.name, asked.target))

    @router.post("/lab", responses=problems(413, 422, 503, 504))
    async def lab(asked: LabQuestion) -> LabAnswer:
        """Search for a second neighbourhood with the same output of a layer."""
        return await answer(asked)

    return router


def _page(file: Path) -> Callable[[], Awaitable[Response]]:
    """A file of the page, read at start: requests cannot name files."""
    content, kind = file.read_bytes(), _KINDS[file.suffix]

    async def page() -> Response:
        return Response(content, media_type=kind, headers=_PAGE_HEADERS)

    return page


def _answer_errors(app: FastAPI) -> None:
    """Convert exceptions to error responses."""

    def problem(status: int, detail: str, **headers: str) -> JSONResponse:
        return JSONResponse({"detail": detail}, status, headers)

    @app.exception_handler(Busy)
    async def busy(_: Request, error: Busy) -> JSONResponse:
        return problem(503, str(error), **{"Retry-After": "1"})

    @app.exception_handler(TimeoutError)
    async def late(_: Request, error: TimeoutError) -> JSONResponse:
        return problem(504, "the answer took too long; send a smaller request")

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
