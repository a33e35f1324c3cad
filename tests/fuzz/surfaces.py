"""What the program reads: intact samples, how they are damaged, and what is right.

The truth is independent of the reader: a file with a checksum must be read as it was
written or be refused, and a text must mean what plain Python finds in it.
"""

import csv
import gzip
import json
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch
from rdkit import Chem, rdBase
from safetensors.torch import load_file, save

from fullrank.data import (
    GraphDataset,
    MoleculeFeaturizer,
    PackedGraphs,
    Target,
    load_dataset,
    read_tu_folder,
)
from fullrank.data.molecules import molecule_features
from fullrank.data.packed.storage import header_checksum
from fullrank.paper.record import read_record
from fullrank.paper.results import make_record, read_runs
from fullrank.report.reproduction import markdown_of, page_of
from fullrank.train import Model, ModelSpec, Predictor, RunFolder, load_config
from fullrank.train.callbacks import AtomicCheckpointIO, load_checkpoint
from fullrank.train.model import checksum
from fullrank.train.predict import REASON
from fullrank.train.predict_file import predict_file
from fullrank.train.references import num_references
from fullrank.train.run_folder import ExperimentFolder, open_runs
from fuzz import damage
from goldens.configs import write_graphs
from paper.samples import runs_for, write_run
from train.samples import SMILES, write_molecules

Damage = Callable[[bytes, Random], bytes]


class Surface(NamedTuple):
    """One kind of input.

    Attributes:
        make: Writes intact files to an empty folder.
        spoil: Damages them.
        read: Reads them as the program does, compares with the truth, and returns how
            many rows were rejected.
        inputs: How many the slow test tries.
    """

    name: str
    make: Callable[[Path], None]
    spoil: Callable[[Path, Random], None]
    read: Callable[[Path], int]
    inputs: int = 220


def damaged(file: Path, kinds: tuple[Damage, ...], random: Random) -> None:
    """Damage a file one to three times."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        data = file.read_bytes()
        if data:
            # One that needs sound text or JSON finds what an earlier one left of it.
            try:
                file.write_bytes(random.choice(kinds)(data, random))
            except (ValueError, RecursionError):
                file.write_bytes(damage.flip_bit(data, random))


def one_file(pattern: str, kinds: tuple[Damage, ...]) -> Callable[[Path, Random], None]:
    def spoil(folder: Path, random: Random) -> None:
        damaged(random.choice(sorted(folder.glob(pattern))), kinds, random)

    return spoil


# --- a table of molecules to train on


def make_csv(folder: Path) -> None:
    write_molecules(folder / "molecules.csv")
    lines = (folder / "molecules.csv").read_text().splitlines()[:30]
    (folder / "molecules.csv").write_text("\n".join(lines) + "\n")


def read_csv(folder: Path) -> int:
    file = folder / "molecules.csv"
    dataset = load_dataset(
        file,
        targets=["logp", "ring"],
        root=folder / "root",
        allow_rejected=True,
        progress=False,
    )
    rejected = (dataset.notes or {})["rejected"]
    with file.open(newline="", encoding="utf-8-sig") as stream:
        header, *rows = csv.reader(stream, delimiter=_delimiter(file))
    header = [name.strip() for name in header]
    assert len(rows) == len(dataset) + len(rejected)
    wrong = {row["row"] for row in rejected}
    lines = _first_lines(file)
    kept = [row for row, line in zip(rows, lines, strict=True) if line not in wrong]
    smiles, stored = dataset.texts("smiles"), dataset.labels
    for index, row in enumerate(kept):
        cells = dict(zip(header, row, strict=True))
        assert cells["smiles"].strip() == smiles[index]
        given = [_number(cells[name]) for name in ("logp", "ring")]
        np.testing.assert_array_equal(stored[index], given)
        with rdBase.BlockLogs():
            atoms = Chem.MolFromSmiles(smiles[index]).GetNumAtoms()
        assert atoms == dataset.graphs.num_nodes[index]
    return len(rejected)


def _delimiter(file: Path) -> str:
    """The sign that the header has most of."""
    with file.open(newline="", encoding="utf-8-sig") as stream:
        return max(",;\t", key=stream.readline().count)


def _first_lines(file: Path) -> list[int]:
    with file.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.reader(stream, delimiter=_delimiter(file))
        found = []
        line = 1
        for _ in reader:
            found.append(line)
            line = reader.line_num + 1
    return found[1:]


def _number(text: str) -> float:
    known = text.strip().lower() not in ("", "na", "nan", "none", "null")
    return float(text) if known else float("nan")


# --- the same table in other formats

FORMATS = ("molecules.parquet", "molecules.smi", "molecules.csv.gz")


def make_formats(folder: Path) -> None:
    make_csv(folder)
    table = pd.read_csv(folder / "molecules.csv")[["smiles", "logp", "ring"]]
    table.to_parquet(folder / "molecules.parquet", index=False)
    table.to_csv(folder / "molecules.smi", sep=" ", index=False)
    text = (folder / "molecules.csv").read_bytes()
    (folder / "molecules.csv.gz").write_bytes(gzip.compress(text, mtime=0))
    (folder / "molecules.csv").unlink()


def spoil_formats(folder: Path, random: Random) -> None:
    """Keep one of the formats; compressed text is damaged inside or outside."""
    keep = folder / random.choice(FORMATS)
    for other in {folder / name for name in FORMATS} - {keep}:
        other.unlink()
    if keep.suffix == ".gz" and random.random() < 0.5:
        keep.write_bytes(gzip.decompress(keep.read_bytes()))
        damaged(keep, damage.TEXT, random)
        keep.write_bytes(gzip.compress(keep.read_bytes(), mtime=0))
    else:
        damaged(keep, damage.TEXT if keep.suffix == ".smi" else damage.BYTES, random)


def read_formats(folder: Path) -> int:
    rejected = 0
    for file in sorted(folder.glob("molecules.*")):
        dataset = load_dataset(
            file,
            targets=["logp", "ring"],
            root=folder / "root",
            allow_rejected=True,
            progress=False,
        )
        notes = (dataset.notes or {})["rejected"]
        wrong = {row["row"] for row in notes}
        kept = [cells for line, cells in _rows_of(file) if line not in wrong]
        assert len(kept) == len(dataset)
        smiles = dataset.texts("smiles")
        for index, cells in enumerate(kept):
            assert cells["smiles"].strip() == smiles[index]
            given = [_number(cells[name]) for name in ("logp", "ring")]
            np.testing.assert_array_equal(dataset.labels[index], given)
        rejected += len(notes)
    return rejected


def _rows_of(file: Path) -> list[tuple[int, dict[str, str]]]:
    """The line or number of each row and its cells, as other libraries read them."""
    if file.suffix == ".parquet":
        rows = pq.read_table(file).to_pylist()
        texts = [
            {name: "" if cell is None else str(cell) for name, cell in row.items()}
            for row in rows
        ]
        return list(enumerate(texts, start=2))
    if file.suffix == ".gz":
        plain = file.with_name("plain.csv")
        plain.write_bytes(gzip.decompress(file.read_bytes()))
        with plain.open(newline="", encoding="utf-8-sig") as stream:
            header, *rows = csv.reader(stream, delimiter=_delimiter(plain))
        lines: Iterable[int] = _first_lines(plain)
    else:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            found = [(n, row.split()) for n, row in enumerate(stream, 1) if row.split()]
        header, *rows = [row for _, row in found]
        lines = [line for line, _ in found[1:]]
    header = [name.strip() for name in header]
    cells = [dict(zip(header, row, strict=False)) for row in rows]
    return list(zip(lines, cells, strict=True))


# --- a configuration

CONFIG = """\
data: {name: qm9, targets: [gap], edges: complete, limit: 100}
split: {kind: random, seed: 3}
model:
  conv: expc
  layers: 3
  hidden: 32
  s: 4
  re_sum: true
  conv_args: {add_self_loops: false}
  dropout: 0.1
optimizer: {name: adamw, lr: 0.001, weight_decay: 0.01, clip: 1.0}
schedule: {name: step, every: 5, factor: 0.5}
training:
  epochs: 20
  batch_size: 64
  loss: mae
seeds: [0, 1, 2]
runs: runs
"""


def make_yaml(folder: Path) -> None:
    (folder / "config.yaml").write_text(CONFIG)


def read_yaml(folder: Path) -> int:
    config = load_config(folder / "config.yaml")
    (folder / "again.yaml").write_text(config.text())
    assert load_config(folder / "again.yaml") == config
    return 0


# --- a folder of graphs in the TU layout


def make_tu(folder: Path) -> None:
    write_graphs(folder / "SMALL", count=6)


def read_tu(folder: Path) -> int:
    dataset = read_tu_folder(folder / "SMALL")
    columns = {
        name: [
            [_integer(value) for value in line.split(",")]
            for line in re.split(
                r"\r\n|\r|\n", _text(folder / f"SMALL/SMALL_{name}.txt")
            )
            if line.strip()
        ]
        for name in ("A", "graph_indicator", "graph_labels")
    }
    graph_of_node = [graph for (graph,) in columns["graph_indicator"]]
    sizes = Counter(graph_of_node)
    numbers = sorted(sizes)
    assert dataset.graphs.num_nodes.tolist() == [sizes[number] for number in numbers]
    edges = sorted((u - 1, v - 1) for u, v in columns["A"])
    assert sorted(map(tuple, dataset.graphs.edge_index.T.tolist())) == edges
    labels = [label for (label,) in columns["graph_labels"]]
    kinds = sorted(set(labels))
    assert dataset.labels.tolist() == [kinds.index(label) for label in labels]
    return 0


def _text(file: Path) -> str:
    return file.read_bytes().decode("utf-8-sig")


def _integer(text: str) -> int:
    assert re.fullmatch(r"[+-]?[0-9]+", text.strip()), text
    return int(text)


# --- a packed set


def _molecules() -> GraphDataset:
    atoms, bonds = molecule_features()
    featurizer = MoleculeFeaturizer()
    graphs = [featurizer.from_smiles(smiles) for smiles in SMILES[:12]]
    info = {
        "name": "molecules",
        "task": "regression",
        "targets": [{"name": "size"}],
        "node_features": atoms,
        "edge_features": bonds,
        "metric": "mae",
        "featurizer": featurizer.model_dump(),
    }
    sizes = np.array([[float(graph.num_nodes)] for graph in graphs])
    packed = PackedGraphs.from_graphs(graphs, {"graph.y": sizes}, info=info)
    return GraphDataset.described(packed)


def make_packed(folder: Path) -> None:
    dataset = read_tu_folder(write_graphs(folder / "SMALL", count=6))
    shutil.rmtree(folder / "SMALL")
    dataset.graphs.save(folder / "set")


def spoil_packed(folder: Path, random: Random) -> None:
    header = folder / "set" / "header.json"
    if random.random() < 0.4:
        one_file("set/*.bin", damage.BYTES)(folder, random)
    elif random.random() < 0.4:
        damaged(header, damage.JSON, random)
    else:  # a header that somebody made
        damaged(header, (damage.change_json,), random)
        _mark(folder)
        try:
            content = json.loads(header.read_text())
            content["sha256"] = header_checksum(content)
            header.write_text(json.dumps(content))
        except (AttributeError, ValueError, TypeError, RecursionError):
            pass


def read_packed(folder: Path) -> int:
    dataset = GraphDataset.described(PackedGraphs.open(folder / "set"))
    batch = dataset.graphs.batch(np.arange(len(dataset)))
    if not _marked(folder):
        assert _batch_digest(batch) == intact(make_packed, _packed_digest)
    return 0


def _packed_digest(folder: Path) -> str:
    graphs = PackedGraphs.open(folder / "set")
    return _batch_digest(graphs.batch(np.arange(len(graphs))))


def _batch_digest(batch: Any) -> str:
    return repr([(key, batch[key].tolist()) for key in sorted(batch.keys())])


# --- an archive


def make_zip(folder: Path) -> None:
    write_graphs(folder / "MUTAG", count=6)
    with zipfile.ZipFile(folder / "MUTAG.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted((folder / "MUTAG").iterdir()):
            archive.write(file, f"MUTAG/{file.name}")
    shutil.rmtree(folder / "MUTAG")


def spoil_zip(folder: Path, random: Random) -> None:
    file = folder / "MUTAG.zip"
    if random.random() < 0.6:
        damaged(file, damage.BYTES, random)
        return
    data = file.read_bytes()
    kind = random.choice(("bomb", "outside", "flag", "method", "size", "link"))
    if kind in ("bomb", "outside", "link"):
        _mark(folder)
        with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
            if kind == "bomb":
                with archive.open("MUTAG/MUTAG_zeros.txt", "w") as stream:
                    for _ in range(64):
                        stream.write(bytes(2**20))
            elif kind == "outside":
                names = ("../outside", "/tmp/fullrank-fuzz", "a/../../b", "..\\c", "")
                archive.writestr(random.choice(names), "x")
            else:
                entry = zipfile.ZipInfo("MUTAG/link")
                entry.external_attr = 0o120777 << 16
                archive.writestr(entry, "/etc/passwd")
        return
    # A field of the entries in the central directory.
    place = {"flag": 8, "method": 10, "size": 24}[kind]
    starts = [found.start() for found in re.finditer(b"PK\x01\x02", data)]
    start = random.choice(starts) + place
    value = {"flag": b"\x01\x00", "method": b"\x63\x00", "size": b"\xff\xff\xff\x7f"}
    file.write_bytes(data[:start] + value[kind] + data[start + len(value[kind]) :])


def read_zip(folder: Path) -> int:
    dataset = load_dataset("MUTAG", mirror=folder, root=folder / "root", progress=False)
    digest = intact(make_zip, _zip_digest)
    assert _batch_digest(dataset.graphs.batch(np.arange(len(dataset)))) == digest
    outside = [*folder.parent.glob("outside*"), *folder.glob("root/*outside*")]
    assert not outside
    return 0


def _zip_digest(folder: Path) -> str:
    dataset = load_dataset("MUTAG", mirror=folder, root=folder / "root", progress=False)
    return _batch_digest(dataset.graphs.batch(np.arange(len(dataset))))


# --- a checkpoint


def make_checkpoint(folder: Path) -> None:
    torch.manual_seed(0)
    content = {
        "run": "a-run",
        "epoch": 3,
        "stopped": False,
        "state_dict": {"weight": torch.randn(20, 20), "bias": torch.randn(20)},
        "random": {"torch": torch.get_rng_state(), "python": (3, (1, 2, 3), None)},
    }
    AtomicCheckpointIO().save_checkpoint(content, folder / "last.ckpt")


def read_checkpoint(folder: Path) -> int:
    content = load_checkpoint(folder / "last.ckpt", "a-run")
    assert _plain(content) == intact(
        make_checkpoint,
        lambda sound: _plain(load_checkpoint(sound / "last.ckpt", "a-run")),
    )
    return 0


def _plain(content: Any) -> Any:
    if isinstance(content, torch.Tensor):
        return [str(content.dtype), content.tolist()]
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    return content


# --- a model file


def _small_model() -> Model:
    torch.manual_seed(0)
    dataset = _molecules()
    spec = ModelSpec(
        run="a-run",
        dataset="molecules",
        task="regression",
        targets=(Target("logp"),),
        metric="mae",
        node_features=dataset.node_features,
        edge_features=dataset.edge_features,
        featurizer=MoleculeFeaturizer(),
        smiles="smiles",
        network={
            "in_channels": list(dataset.node_features.cardinalities),
            "hidden_channels": 4,
            "out_channels": 1,
            "num_layers": 2,
            "conv": "expc",
            "conv_args": {"num_aggregators": 2},
            "edge_dim": list(dataset.edge_features.cardinalities),
        },
        mean=(1.0,),
        std=(2.0,),
        references=(
            tuple(0.1 * (i % 7) for i in range(num_references(dataset.node_features))),
        ),
        scores={"test": {"mae": 0.5}},
    )
    return Model(spec).eval()


def make_model(folder: Path) -> None:
    _small_model().save(folder / "model.safetensors")


def spoil_model(folder: Path, random: Random) -> None:
    file = folder / "model.safetensors"
    if random.random() < 0.5:
        damaged(file, damage.BYTES, random)
        return
    # A model that somebody made: its checksum is right, its content is not.
    _mark(folder)
    spec = _small_model().spec.model_dump_json()
    weights = load_file(file)
    if random.random() < 0.85:
        spec = damage.change_json(spec.encode(), random).decode()
    else:
        name = random.choice(sorted(weights))
        weights[name] = random.choice(
            (weights[name].double(), weights[name][:0], weights[name] * float("nan"))
        )
    if random.random() < 0.3:
        layers = re.sub(r'"num_layers": ?2', '"num_layers": 1000000000000', spec)
        spec = random.choice((layers, spec.replace('"molecules"', '"../../x"')))
    header = json.dumps({"sha256": checksum(spec, weights), "spec": spec})
    file.write_bytes(save(weights, {"fullrank": header}))


def read_model(folder: Path) -> int:
    model = Model.load(folder / "model.safetensors")
    if _marked(folder):
        Predictor([model]).predict(["CCO"])
        return 0
    assert _model_digest(model) == intact(
        make_model,
        lambda sound: _model_digest(Model.load(sound / "model.safetensors")),
    )
    return 0


def _model_digest(model: Model) -> str:
    weights = {name: value.tolist() for name, value in model.state_dict().items()}
    return model.spec.model_dump_json() + repr(weights)


# --- the files of a run


def make_run(folder: Path) -> None:
    runs = runs_for("ablation-qm9", "small", folder / "runs", ["ExpC-4", "mu"], 2)
    folders = [write_run(run, "mae", 0.5, 0.6) for run in runs]
    for run in folders:
        shutil.copy(run.metrics_file.file, run.times_file.file)
        text = run.times_file.file.read_text().replace("train_mae", "seconds")
        run.times_file.file.write_text(text)
    summary = {
        "experiment": "both",
        "dataset": "qm9",
        "conv": "expc",
        "protocol": "split",
        "metric": "mae",
        "epochs": None,
        "test": {"mae": {"mean": 0.6, "std": 0.0, "values": [0.6, 0.6]}},
        "parameters": 1000,
        "seconds": 2.0,
        "seconds_per_epoch": 0.5,
        "peak_memory": 2_000_000,
        "runs": [run.id for run in folders],
    }
    (folder / "runs" / "both").mkdir()
    (folder / "runs" / "both" / "summary.json").write_text(json.dumps(summary))


def spoil_run(folder: Path, random: Random) -> None:
    first = sorted((folder / "runs").glob("qm9-*"))[0]
    file = random.choice([*sorted(first.iterdir()), folder / "runs/both/summary.json"])
    kinds = {".json": damage.JSON, ".yaml": damage.YAML, ".csv": damage.TEXT}
    damaged(file, kinds[file.suffix], random)


def read_run(folder: Path) -> int:
    first, second = (
        RunFolder(path) for path in sorted((folder / "runs").glob("qm9-*"))
    )
    # Whatever is wrong with one run, the page of all runs is made, with the other one.
    record = make_record(folder / "runs")
    found = read_runs(folder / "runs")
    assert second.id in {run.folder.id for each in found.runs.values() for run in each}
    page_of(record)
    markdown_of(record)
    for run in open_runs(folder / "runs" / "both"):
        assert run.path.resolve().parent == (folder / "runs").resolve()
    assert ExperimentFolder(folder / "runs" / "both").summary
    _ = first.identity, first.config, first.result, first.split, first.environment
    _ = first.curve, first.seconds
    return 0


# --- a results file


def make_results(folder: Path) -> None:
    for run in runs_for("ablation-qm9", "small", folder / "runs", ["ExpC-4", "mu"], 2):
        write_run(run, "mae", 0.5, 0.6)
    make_record(folder / "runs").write(folder / "results.json")
    shutil.rmtree(folder / "runs")


def read_results(folder: Path) -> int:
    record = read_record(folder / "results.json")
    page = page_of(record)
    markdown_of(record)
    assert "<script>alert(1)" not in page
    return 0


# --- a table to predict for


def make_table(folder: Path) -> None:
    make_csv(folder)
    with Chem.SDWriter(str(folder / "molecules.sdf")) as writer:
        for smiles in SMILES[:8]:
            writer.write(Chem.MolFromSmiles(smiles))
    make_model(folder)


def spoil_table(folder: Path, random: Random) -> None:
    keep, other = random.sample(("csv", "sdf"), 2)
    (folder / f"molecules.{other}").unlink()
    damaged(folder / f"molecules.{keep}", damage.TEXT, random)


def read_table(folder: Path) -> int:
    predictor = Predictor([Model.load(folder / "model.safetensors")])
    failed = 0
    for source in folder.glob("molecules.*"):
        failed += _predicted(predictor, source, folder)
    return failed


def _predicted(predictor: Predictor, source: Path, folder: Path) -> int:
    count = predict_file(predictor, source, folder / "predicted.csv")
    with (folder / "predicted.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == count.predicted + count.failed
    good = [row for row in rows if not row[REASON]]
    assert len(good) == count.predicted
    if good:
        again = predictor.predict([row["smiles"] for row in good])
        found = [float(row["predicted_logp"]) for row in good]
        np.testing.assert_allclose(found, again["predicted_logp"], rtol=1e-4, atol=1e-6)
    return count.failed


# --- what the surfaces share

_known: dict[Any, Any] = {}


def intact(make: Callable[[Path], None], digest: Callable[[Path], Any]) -> Any:
    """What is read from intact files."""
    import tempfile

    if make not in _known:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder))
            _known[make] = digest(Path(folder))
    return _known[make]


def _mark(folder: Path) -> None:
    """Note that the files were made on purpose: they may be read as what they are."""
    (folder / "made").touch()


def _marked(folder: Path) -> bool:
    return (folder / "made").exists()


SURFACES = {
    surface.name: surface
    for surface in (
        Surface("csv", make_csv, one_file("*.csv", damage.TEXT), read_csv),
        Surface("formats", make_formats, spoil_formats, read_formats),
        Surface("yaml", make_yaml, one_file("*.yaml", damage.YAML), read_yaml),
        Surface("tu", make_tu, one_file("SMALL/*.txt", damage.TEXT), read_tu),
        Surface("packed", make_packed, spoil_packed, read_packed),
        Surface("zip", make_zip, spoil_zip, read_zip),
        Surface(
            "checkpoint",
            make_checkpoint,
            one_file("*.ckpt", damage.BYTES),
            read_checkpoint,
        ),
        Surface("model", make_model, spoil_model, read_model),
        Surface("run", make_run, spoil_run, read_run),
        Surface("results", make_results, one_file("*.json", damage.JSON), read_results),
        Surface("prediction", make_table, spoil_table, read_table),
    )
}
