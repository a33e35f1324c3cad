"""A page that compares run folders: results, learning curves, provenance."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLORS = ("#7f7f7f", "#9ecae1", "#4292c6", "#08519c", "#e6550d", "#31a354")

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: .3rem .9rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
tr.best { font-weight: 600; }
.note { color: #555; font-size: .9rem; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<p>{{ lead }}</p>
<div class="wide"><table>
<thead><tr><th>model</th><th>test {{ metric }}{{ unit }}</th>
<th>validation {{ metric }}</th><th>best epoch</th><th>parameters</th>
<th>seconds an epoch</th></tr></thead>
<tbody>
{% for row in rows %}<tr{% if row.best %} class="best"{% endif %}>
<td>{{ row.name }}</td><td>{{ row.test }}</td><td>{{ row.valid }}</td>
<td>{{ row.epoch }}</td><td>{{ row.parameters }}</td><td>{{ row.seconds }}</td></tr>
{% endfor %}</tbody>
</table></div>
<p class="note">One run each, so small differences may be chance. The epoch is chosen on
the validation molecules; the test molecules are looked at once, after that.</p>
<h2>Learning curves</h2>
{{ curves }}
<h2>Where the numbers come from</h2>
<ul class="note">{% for row in rows %}
<li>{{ row.name }}: <code>{{ row.folder }}</code>, seed {{ row.seed }}</li>{% endfor %}
</ul>
<p class="note">fullrank {{ machine.fullrank }}{% if machine.commit %}
(commit {{ machine.commit[:12] }}){% endif %}, torch {{ machine.torch }},
{{ machine.processor }}, {{ machine.threads }} threads.</p>
</body>
</html>
"""


def write_training_report(page: Path, title: str, folders: Mapping[str, Path]) -> None:
    """Write a self-contained page about finished runs of one data set.

    Args:
        page: The HTML file to write.
        title: Of the page.
        folders: The run folder of each model, by the name to show.
    """
    import jinja2

    results = {name: _json(folder / "result.json") for name, folder in folders.items()}
    first = next(iter(results))
    metric = results[first]["metric"]
    plan = _json(folders[first] / "model.json")
    unit = f" ({plan['targets'][0]['unit']})" if plan["targets"][0]["unit"] else ""
    counts = results[first]["graphs"]
    environment = jinja2.Environment(autoescape=True)
    page.write_text(
        environment.from_string(_PAGE).render(
            title=title,
            lead=f"{counts['train']:,} graphs of {results[first]['dataset']} to learn "
            f"from, {counts['valid']:,} to choose the epoch, {counts['test']:,} to test.",
            metric=metric.upper(),
            unit=unit,
            rows=_rows(results, folders, metric),
            curves=_curves(folders, metric, unit),
            machine=_json(folders[first] / "environment.json"),
        ),
        encoding="utf-8",
    )


def _rows(
    results: Mapping[str, Any], folders: Mapping[str, Path], metric: str
) -> list[dict[str, Any]]:
    best = min(result["test"][metric] for result in results.values())
    return [
        {
            "name": name,
            "folder": folders[name].name,
            "best": result["test"][metric] == best,
            "test": f"{result['test'][metric]:.5f}",
            "valid": f"{result['valid'][metric]:.5f}",
            "epoch": result["best_epoch"] + 1,
            "parameters": f"{result['parameters']:,}",
            "seconds": f"{result['seconds_per_epoch']:.2f}",
            "seed": result["seed"],
        }
        for name, result in results.items()
    ]


def _curves(folders: Mapping[str, Path], metric: str, unit: str) -> Any:
    import markupsafe
    from plotly import graph_objects

    figure = graph_objects.Figure()
    for color, (name, folder) in zip(COLORS, folders.items(), strict=False):
        with (folder / "metrics.csv").open(encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        for part, dash in (("valid", "solid"), ("train", "dot")):
            figure.add_scatter(
                x=[int(row["epoch"]) + 1 for row in rows],
                y=[float(row[f"{part}_{metric}"]) for row in rows],
                name=f"{name}, {part}",
                legendgroup=name,
                line={"color": color, "dash": dash},
                hovertemplate="epoch %{x}: %{y:.5f}",
            )
    figure.update_layout(
        template="plotly_white",
        height=480,
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        xaxis_title="epoch",
        yaxis={"title": f"{metric.upper()}{unit}", "type": "log", "dtick": "D1"},
        legend={"orientation": "h", "y": -0.2},
    )
    html = figure.to_html(
        full_html=False, include_plotlyjs=True, config={"responsive": True}
    )
    return markupsafe.Markup(html)


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
