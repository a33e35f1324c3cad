import re

from fullrank.paper.published import Number, metric_of, published
from fullrank.paper.ready import table_names
from shared_data import shared_data

# A row of each table as LaTeX has it, and where its numbers are found.
LABELS = {
    "ablation-ogb": "ogbg-ablation",
    "ablation-qm9": "qm9-ablation",
    "baselines-ogb-tu": "ogbg-baselines",
    "baselines-qm9": "qm9-baselines",
}


def test_every_number_of_the_four_tables_is_there():
    assert {name: len(published(name)) for name in table_names()} == {
        "ablation-ogb": 20,
        "ablation-qm9": 96,
        "baselines-ogb-tu": 47,
        "baselines-qm9": 96,
        "density-qm9": 0,  # not the paper's, as all that follow
        "networks-qm9": 0,
        "networks-tu": 0,
        "structural": 0,
    }
    assert published("baselines-ogb-tu")["ExpC-s", "ogbg-molhiv"] == Number(
        "rocauc_pct", "max", 77.99, 0.82
    )
    assert published("ablation-qm9")["CombC*", "qm9/mu"] == Number(
        "mae", "min", 0.4062, None
    )


def test_the_means_are_those_of_the_paper_in_its_order():
    paper = shared_data().parent / "paper" / "paper.tex"
    tables = re.findall(r"\\begin{table}.*?\\end{table}", paper.read_text(), re.DOTALL)
    for name, label in LABELS.items():
        (table,) = (t for t in tables if f"\\label{{{label}}}" in t)
        body = re.sub(r"\\citep?{[^}]*}", "", table[table.index("\\midrule") :])
        cells = [cell for line in body.split("\\\\") for cell in line.split("&")[1:]]
        printed = [
            float(re.search(r"\d+(\.\d+)?", cell).group())
            for cell in cells
            if "NA" not in cell
        ]
        assert [number.mean for number in published(name).values()] == printed


def test_the_metric_of_a_column():
    assert metric_of("qm9/gap") == ("mae", "min")
    assert metric_of("ogbg-molhiv") == ("rocauc_pct", "max")
    assert metric_of("MUTAG") == ("accuracy_pct", "max")  # not in the paper
