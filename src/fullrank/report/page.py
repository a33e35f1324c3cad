"""Self-contained HTML pages: text, tables and plotly figures in one file.

Nothing is loaded from the network; the page itself forbids it.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import jinja2
    import plotly.graph_objects as go

#: Distinguishable with colour vision deficiency (Okabe and Ito).
PALETTE = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#7F7F7F",
    "#000000",
    "#8C564B",
)


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    text: str
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True)
class Table:
    """Rows of cells, formatted as text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Figure:
    """A plotly figure, as wide as the page."""

    figure: "go.Figure"
    caption: str = ""
    kind: ClassVar[str] = "figure"

    @property
    def html(self) -> str:
        from markupsafe import Markup

        figure = self.figure.update_layout(
            template="plotly_white",
            font={"family": "system-ui, sans-serif", "size": 13},
            colorway=PALETTE,
        )
        markup = figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            config={"responsive": True, "displayModeBar": False},
        )
        return Markup(markup)


@dataclass(frozen=True)
class Fragment:
    """Ready HTML."""

    html: str
    kind: ClassVar[str] = "fragment"


Block = Text | Heading | Table | Figure | Fragment


@dataclass(frozen=True)
class Section:
    """A titled part of a page."""

    title: str
    blocks: Sequence[Block]


def render_page(
    title: str, lead: str, sections: Sequence[Section], provenance: Mapping[str, str]
) -> str:
    """The whole page as one string.

    Args:
        title: Title of the page.
        lead: One or two sentences under the title.
        sections: The sections, in order.
        provenance: Origin of the numbers, shown at the end.
    """
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    page = templates().get_template("page.html")
    return page.render(
        title=title,
        lead=lead,
        sections=sections,
        provenance=provenance,
        plotly_js=Markup(get_plotlyjs()),
    )


def templates() -> "jinja2.Environment":
    """The templates next to this file."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
    )


def software() -> dict[str, str]:
    """Versions and date: the end of every provenance."""
    import torch
    import torch_geometric

    from fullrank.version import __version__

    return {
        "fullrank": __version__,
        "torch": torch.__version__,
        "PyG": torch_geometric.__version__,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
