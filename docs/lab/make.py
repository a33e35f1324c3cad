"""Make the tables and figures of "What your GNN cannot see".

    python docs/lab/make.py --data DATA             # everything
    python docs/lab/make.py --data DATA collisions  # one of them

DATA holds the data sets: tu/COLLAB, ogb/ogbg_molhiv and the suites in expressiveness/.
Figures are drawn by plotly in a headless Chromium and saved as SVG.
"""

import argparse
import csv
import json
import re
import shutil
import tempfile
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import plotly.graph_objects as go
import torch
import torch_geometric.nn as pyg
from selenium import webdriver

from fullrank.data import GraphDataset, load_dataset
from fullrank.lab import (
    MAX,
    MEAN,
    MIN,
    NMEAN,
    STD,
    SUM,
    PairNet,
    collide,
    compare,
    load_suite,
    merged,
    moment,
    powers,
    profile,
    separates,
)
from fullrank.lab.precision import double, frozen_copy
from fullrank.nn import CombConv, ExpandingConv, GraphNet
from fullrank.report.lab_page import collision_figure
from fullrank.report.page import PALETTE, Figure, Section, render_page, software
from fullrank.train import parse, run_one
from fullrank.train.environment import environment
from fullrank.train.evaluate import load_data, load_model

HERE = Path(__file__).parent
D, OUT, N, SEEDS = 4, 16, 4, 5


def layers() -> dict[str, Callable[[], torch.nn.Module]]:
    """The layers of the collision table."""

    def mlp() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Linear(D, OUT), torch.nn.ReLU(), torch.nn.Linear(OUT, OUT)
        )

    aggregators, scalers = ["mean", "min", "max", "std"], ["identity", "amplification"]
    histogram = torch.tensor([0, 10, 10, 10, 10])
    return {
        "GCNConv": lambda: pyg.GCNConv(D, OUT),
        "GINConv (ε = 0)": lambda: pyg.GINConv(mlp()),
        "SAGEConv, mean": lambda: pyg.SAGEConv(D, OUT),
        "SAGEConv, max": lambda: pyg.SAGEConv(D, OUT, aggr="max"),
        "GraphConv": lambda: pyg.GraphConv(D, OUT),
        "TAGConv": lambda: pyg.TAGConv(D, OUT),
        "SGConv": lambda: pyg.SGConv(D, OUT),
        "ChebConv, K = 2": lambda: pyg.ChebConv(D, OUT, 2),
        "ARMAConv": lambda: pyg.ARMAConv(D, OUT),
        "LEConv": lambda: pyg.LEConv(D, OUT),
        "ClusterGCNConv": lambda: pyg.ClusterGCNConv(D, OUT),
        "MFConv": lambda: pyg.MFConv(D, OUT),
        "FiLMConv": lambda: pyg.FiLMConv(D, OUT),
        "EGConv, 4 heads": lambda: pyg.EGConv(D, OUT, num_heads=4),
        "GATConv, 1 head": lambda: pyg.GATConv(D, OUT),
        "GATConv, 4 heads": lambda: pyg.GATConv(D, OUT // 4, heads=4),
        "GATv2Conv, 1 head": lambda: pyg.GATv2Conv(D, OUT),
        "TransformerConv": lambda: pyg.TransformerConv(D, OUT),
        "ResGatedGraphConv": lambda: pyg.ResGatedGraphConv(D, OUT),
        "GENConv": lambda: pyg.GENConv(D, OUT),
        "PNAConv": lambda: pyg.PNAConv(D, OUT, aggregators, scalers, histogram),
        "ExpC-1": lambda: ExpandingConv(D, OUT, 1),
        "ExpC-4": lambda: ExpandingConv(D, OUT, 4),
        "ExpC-8": lambda: ExpandingConv(D, OUT, 8),
        "CombC": lambda: CombConv(D, OUT),
        "ExpC*-1": lambda: ExpandingConv(D, OUT, 1, re_sum=False),
        "ExpC*-4": lambda: ExpandingConv(D, OUT, 4, re_sum=False),
        "ExpC*-8": lambda: ExpandingConv(D, OUT, 8, re_sum=False),
        "CombC*": lambda: CombConv(D, OUT, re_sum=False),
    }


def collisions() -> None:
    """Which of PyG's layers confuse a neighbourhood of 4 with another?"""
    rows = []
    for name, make in layers().items():
        row: dict[str, object] = {"layer": name}
        for of in ("output", "aggregate"):
            found, start = [], time.process_time()
            for seed in range(SEEDS):
                torch.manual_seed(seed)
                layer, x = make(), torch.randn(N, D)
                found.append(collide(layer, x, of=of, seed=seed))
            seconds = (time.process_time() - start) / SEEDS
            caught = sum(one.found for one in found)
            # The worst of those that were caught, else the best that was reached.
            gaps = [one.gap for one in found if one.found]
            gap = max(gaps) if gaps else min(one.gap for one in found)
            row |= {
                f"{of}: sensed of {found[0].free}": min(one.sensed for one in found),
                f"{of}: caught of {SEEDS}": caught,
                f"{of}: gap": f"{gap:.0e}",
                f"{of}: seconds": f"{seconds:.2f}",
            }
        rows.append(row)
        print(row)
    pd.DataFrame(rows).to_csv(HERE / "collisions.csv", index=False)


def pictures() -> None:
    """One collision that can be checked by hand, of a mean and of an attention."""
    for name, layer in {"gcn": pyg.GCNConv(2, 4), "gat": pyg.GATConv(2, 4)}.items():
        torch.manual_seed(1)
        layer.reset_parameters()
        collision = collide(layer, torch.randn(4, 2), distance=1.0)
        save(collision_figure(collision), f"collision_{name}.svg", height=420)
        rows = {
            "first": collision.first.x.tolist(),
            "second": collision.second.x.tolist(),
            "outputs": [output.tolist() for output in collision.outputs],
            "weight": layer.lin.weight.tolist(),
            "gap": collision.gap,
        }
        text = json.dumps(rows, indent=1)
        (HERE / f"collision_{name}.json").write_text(text + "\n")


def strength() -> None:
    """The partial order of the basic aggregators and their products."""
    basic = [SUM, MEAN, NMEAN, MAX, MIN, STD, moment(3), powers(2), powers(3)]
    products = [f @ g for f, g in combinations(basic, 2)]
    rows = []
    for f in [*basic, *products]:
        for g in basic:
            comparison = compare(f, g)
            rows.append(
                {
                    "f": f.name,
                    "g": g.name,
                    "f is": comparison.verdict,
                    "f at least as strong": str(comparison.at_least),
                    "f at most as strong": str(comparison.at_most),
                }
            )
    table = pd.DataFrame(rows)
    table.to_csv(HERE / "strength.csv", index=False)
    grid = table.pivot(index="f", columns="g", values="f is")
    names = [f.name for f in basic]
    grid = grid.loc[names, names]
    codes = {"weaker": 0, "incomparable": 1, "equal": 2, "stronger": 3}
    figure = go.Figure(
        go.Heatmap(
            z=grid.replace(codes).astype(int).to_numpy(),
            x=names,
            y=names,
            text=grid.to_numpy(),
            texttemplate="%{text}",
            textfont={"size": 11},
            colorscale=["#F4C7A1", "#F2F2F2", "#CFE3F3", "#8CBFE6"],
            showscale=False,
            xgap=2,
            ygap=2,
        )
    )
    figure.update_yaxes(autorange="reversed", title="f, against ...")
    figure.update_xaxes(side="top", title="... g")
    save(figure, "strength.svg", height=460)


def resistance() -> None:
    """How often the aggregate of an ExpandingConv without Re-SUM, M H, gives way."""
    rows = []
    for s in (1, 2, 3, 4, 6, 8):
        for n in (3, 4, 5, 6):
            caught = 0
            for seed in range(SEEDS):
                torch.manual_seed(seed)
                layer = ExpandingConv(D, OUT, s, re_sum=False)
                x = torch.randn(n, D)
                caught += collide(layer, x, "aggregate", starts=8, seed=seed).found
            rows.append({"s": s, "neighbours": n - 1, "caught": caught, "of": SEEDS})
            print(rows[-1])
    table = pd.DataFrame(rows)
    table.to_csv(HERE / "resistance.csv", index=False)
    grid = table.pivot(index="neighbours", columns="s", values="caught")
    figure = go.Figure(
        go.Heatmap(
            z=grid.to_numpy(),
            x=[f"s = {s}" for s in grid.columns],
            y=[f"{n} neighbours" for n in grid.index],
            texttemplate=f"%{{z}} of {SEEDS}",
            colorscale=["#CFE3F3", "#F4C7A1"],
            showscale=False,
            xgap=2,
            ygap=2,
        )
    )
    save(figure, "resistance.svg", height=300)


def rank(data: Path) -> None:
    """How much rank untrained networks keep on a dense and on a sparse data set."""
    models: dict[str, tuple[str, dict]] = {
        "GCN": ("gcn", {}),
        "GAT, 4 heads": ("gat", {"heads": 4}),
        "ExpC*-1": ("expc", {"num_aggregators": 1, "re_sum": False}),
        "ExpC*-4": ("expc", {"num_aggregators": 4, "re_sum": False}),
        "ExpC*-16": ("expc", {"num_aggregators": 16, "re_sum": False}),
    }
    rows = []
    for name, dataset in real_sets(data):
        batch = next(iter(dataset.loader(batch_size=64)))
        features = dataset.node_features
        categories = list(features.cardinalities) or features.dim
        figure = go.Figure()
        for (label, (conv, arguments)), color in zip(
            models.items(), PALETTE, strict=False
        ):
            torch.manual_seed(0)
            net = GraphNet(categories, 32, 1, 2, conv=conv, conv_args=arguments)
            layer = profile(frozen_copy(net), double(batch), rtol=1e-9)[1]
            kept = layer.by_degree("kept")
            rows.append(
                {
                    "data": name,
                    "model": label,
                    "rank M": round(layer.mean("rank M"), 2),
                    "rank H": round(layer.mean("rank H"), 2),
                    "rank R": round(layer.mean("rank R"), 2),
                    "effective rank H": round(layer.mean("effective rank H"), 2),
                    "effective rank R": round(layer.mean("effective rank R"), 2),
                    "kept": round(layer.mean("kept"), 3),
                }
            )
            print(rows[-1])
            figure.add_scatter(
                x=list(kept),
                y=list(kept.values()),
                name=label,
                mode="lines+markers",
                line={"color": color},
            )
        figure.update_xaxes(title="size of the neighbourhood")
        figure.update_yaxes(title="rank kept in layer 2", rangemode="tozero")
        save(figure, f"rank_{name.lower()}.svg", height=340)
    pd.DataFrame(rows).to_csv(HERE / "rank.csv", index=False)


def real_sets(data: Path) -> Iterator[tuple[str, GraphDataset]]:
    with tempfile.TemporaryDirectory() as root:
        yield "COLLAB", load_dataset("COLLAB", mirror=str(data / "tu"), root=root)
        folder = data / "ogb" / "ogbg_molhiv"
        yield "ogbg-molhiv", load_dataset("ogbg-molhiv", folder=folder, root=root)


def pairs(data: Path) -> None:
    """Which graph pairs message passing distinguishes, and a reference beyond it."""
    rows = []
    for name in ("atlas", "csl", "brec", "exp", "sr25", "graph8c"):
        suite = load_suite(name, data / "expressiveness")
        row = {"suite": name, "pairs": len(suite)}
        row["1-WL"] = int(suite.wl_separated().sum())
        for conv in ("gin0", "expc", "combc"):
            torch.manual_seed(0)
            net = GraphNet(suite.num_features, 8, 8, 4, conv=conv)
            row[conv] = separates(net, suite).count
        torch.manual_seed(0)
        reference = PairNet(suite.num_features, channels=8)
        few = 2 if name in ("brec", "exp") else 32
        row["3-WL reference"] = separates(reference, suite, relabelings=few).count
        rows.append(row)
        print(row)
    pd.DataFrame(rows).to_csv(HERE / "pairs.csv", index=False)


def merges(data: Path) -> None:
    """Which graphs of ogbg-molhiv do briefly trained networks merge?"""
    rows = []
    with tempfile.TemporaryDirectory() as root:
        for conv in ("expc", "gcn"):
            config = parse(
                {
                    "data": {
                        "name": "ogbg-molhiv",
                        "folder": str(data / "ogb" / "ogbg_molhiv"),
                        "root": root,
                    },
                    "model": {"conv": conv, "layers": 3, "hidden": 32},
                    "training": {"epochs": 2, "batch_size": 256},
                    "runs": root,
                }
            )
            run = run_one(config)
            dataset, network = load_data(run), load_model(run).network
            start = time.process_time()
            merging = merged(network, dataset.loader(batch_size=512))
            seconds = time.process_time() - start
            labels = torch.from_numpy(dataset.labels[:, 0].copy())
            row: dict[str, object] = {
                "model": f"{conv}, 3 layers of 32, 2 epochs",
                "graphs": len(merging),
                "embeddings": merging.count,
            }
            for kind, (groups, graphs) in merging.counts().items():
                row[kind] = f"{graphs} in {groups} groups"
            row["best accuracy"] = f"{merging.best_accuracy(labels):.4%}"
            row["CPU seconds"] = f"{seconds:.1f}"
            rows.append(row)
            print(row)
    pd.DataFrame(rows).to_csv(HERE / "merged.csv", index=False)


def fill_page() -> None:
    """Write the tables into the page, between the comments that name them."""
    page = HERE.parent / "what-your-gnn-cannot-see.md"
    text = page.read_text(encoding="utf-8")
    for file in re.findall(r"<!-- (\w+\.csv) -->", text):
        header, *rows = csv.reader((HERE / file).open(encoding="utf-8"))
        rule = ["---"] + ["---:"] * (len(header) - 1)
        lines = ["| " + " | ".join(row) + " |" for row in [header, rule, *rows]]
        pattern = rf"(?s)<!-- {file} -->.*?<!-- end -->"
        table = "\n".join([f"<!-- {file} -->", "", *lines, "", "<!-- end -->"])
        text = re.sub(pattern, lambda match, table=table: table, text)
    page.write_text(text, encoding="utf-8")


def save(figure: go.Figure, name: str, height: int) -> None:
    """Let a browser draw a figure and write it as SVG."""
    figure.update_layout(margin={"l": 90, "r": 20, "t": 50, "b": 50})
    page = render_page("", "", [Section("", [Figure(figure)])], {})
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    with tempfile.TemporaryDirectory() as folder:
        for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"):
            options.add_argument(flag)
        options.add_argument("--disable-background-networking")
        options.add_argument(f"--user-data-dir={folder}/profile")
        file = Path(folder) / "page.html"
        file.write_text(page, encoding="utf-8")
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        browser = webdriver.Chrome(options=options, service=service)
        try:
            browser.get(file.as_uri())
            url = browser.execute_async_script(
                "const [height, done] = arguments;"
                "Plotly.toImage(document.querySelector('.plotly-graph-div'),"
                "{format: 'svg', width: 860, height}).then(done);",
                height,
            )
        finally:
            browser.quit()
    head, _, body = url.partition(",")
    text = b64decode(body).decode() if head.endswith("base64") else unquote(body)
    (HERE / name).write_text(text + "\n", encoding="utf-8")


def main() -> None:
    parts = {
        "strength": lambda data: strength(),
        "pictures": lambda data: pictures(),
        "collisions": lambda data: collisions(),
        "resistance": lambda data: resistance(),
        "rank": rank,
        "pairs": pairs,
        "merged": merges,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*parts, []], default=[*parts])
    parser.add_argument("--data", type=Path, required=True)
    arguments = parser.parse_args()
    file = HERE / "provenance.json"
    made = {**software(), "commit": environment().commit}
    for part in arguments.parts:
        start = time.perf_counter()
        parts[part](arguments.data)
        seconds = round(time.perf_counter() - start, 1)
        command = f"python docs/lab/make.py --data DATA {part}"
        provenance = json.loads(file.read_text()) if file.exists() else {}
        provenance[part] = {"command": command, "seconds": seconds, **made}
        file.write_text(json.dumps(provenance, indent=1) + "\n")
    fill_page()


if __name__ == "__main__":
    main()
