import signal
import subprocess
import sys

import numpy as np
import pytest

from fullrank import load
from fullrank.errors import ConfigError, DataError
from fullrank.interrupt import Interrupted
from fullrank.train import Predictor, run_one
from fullrank.train.predict import MOLECULES_AT_ONCE
from fullrank.train.predict_file import FileOptions, predict_file
from goldens.configs import write_graphs
from train.samples import SMILES, environment, small_config, untrained, write_molecules
from train.test_predict import own_predictions, rows_of


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model file; what it predicts does not matter here."""
    folder = tmp_path_factory.mktemp("model")
    return untrained(small_config(folder), folder / "model.safetensors")


def test_table_keeps_rows_and_columns(model, tmp_path):
    table = tmp_path / "in.csv"
    lines = ["id,smiles,note", '1,CCO,"a, b"', "2,C1CC,", "3,,é", "4", "5,CC,x"]
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    count = predict_file(load(model), table, tmp_path / "out.csv")
    rows = rows_of(tmp_path / "out.csv")
    assert [row["id"] for row in rows] == ["1", "2", "3", "4", "5"]
    assert [row["note"] for row in rows] == ["a, b", "", "é", "", "x"]
    assert [bool(row["predicted_logp"]) for row in rows] == [True, *[False] * 3, True]
    assert "C1CC" in rows[1]["reason"]
    assert "empty" in rows[2]["reason"]
    assert rows[3]["reason"] == "1 cells instead of 3"
    assert (count.predicted, count.failed) == (2, 3)
    assert count.first_reason == rows[1]["reason"]


def test_a_molecule_that_rdkit_cannot_take_is_one_row(model, tmp_path):
    table = tmp_path / "in.csv"
    table.write_text("\n".join(["smiles", "CCO", "C" * 20_000, "[#200]", "CC"]) + "\n")
    count = predict_file(load(model), table, tmp_path / "out.csv")
    rows = rows_of(tmp_path / "out.csv")
    assert (count.predicted, count.failed) == (2, 2)
    assert [bool(row["predicted_logp"]) for row in rows] == [True, False, False, True]
    assert "10,000" in rows[1]["reason"]
    assert "[#200]" in rows[2]["reason"]


def test_long_table_is_the_same_row_by_row(model, tmp_path):
    """Longer than one portion, so portions must join without a seam."""
    table = write_molecules(tmp_path / "in.csv", repeat=16)
    predict_file(load(model), table, tmp_path / "out.csv")
    rows = rows_of(tmp_path / "out.csv")
    assert [row["smiles"] for row in rows] == SMILES * 16
    values = np.array([float(row["predicted_logp"]) for row in rows]).reshape(16, -1)
    np.testing.assert_allclose(
        values, np.broadcast_to(values[0], values.shape), rtol=1e-5
    )


def test_failure_writes_no_file(model, tmp_path):
    table = tmp_path / "in.csv"
    table.write_text("Smiles\nC\n")
    output = tmp_path / "out.csv"
    with pytest.raises(DataError, match="'smiles'.*'Smiles'"):
        predict_file(load(model), table, output)
    table.write_text("smiles,reason\nC,\n")
    with pytest.raises(DataError, match="'reason'"):
        predict_file(load(model), table, output)
    with pytest.raises(DataError, match="nowhere"):
        predict_file(load(model), tmp_path / "nowhere", output)
    with pytest.raises(ConfigError):
        predict_file(load(model), table, table)
    assert not output.exists()


def test_folder_of_graphs(tmp_path):
    graphs = write_graphs(tmp_path / "chords", 40)
    base = {"name": str(graphs)}
    config = small_config(
        tmp_path, data=base, split={"kind": "random"}, training={"epochs": 1}
    )
    run = run_one(config)
    truth = own_predictions(run, config.data.load(), np.arange(40))
    (graphs / "chords_graph_labels.txt").unlink()  # new graphs have none
    predictor = load(run.path)
    predict_file(predictor, graphs, tmp_path / "out.csv")
    rows = rows_of(tmp_path / "out.csv")
    found = [[float(r["probability_0"]), float(r["probability_1"])] for r in rows]
    np.testing.assert_allclose(found, truth, rtol=1e-5)
    with pytest.raises(ConfigError, match="chords"):
        predictor.predict(["CCO"])


def test_a_model_of_molecules_does_not_read_folders(model, tmp_path):
    graphs = write_graphs(tmp_path / "chords", 4)
    with pytest.raises(ConfigError):
        predict_file(load(model), graphs, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def long_table(file, blocks):
    """A table of a few blocks."""
    repeat = -(-blocks * MOLECULES_AT_ONCE // len(SMILES))
    return write_molecules(file, repeat=repeat)


def test_workers_and_batches_change_nothing(model, tmp_path):
    table = long_table(tmp_path / "in.csv", 2)
    predict_file(load(model), table, tmp_path / "one.csv", FileOptions(workers=1))
    predictor = load(model)
    predictor.batch_size = 7
    predict_file(predictor, table, tmp_path / "two.csv", FileOptions(workers=2))
    one, two = rows_of(tmp_path / "one.csv"), rows_of(tmp_path / "two.csv")
    assert [row["smiles"] for row in one] == [row["smiles"] for row in two]
    np.testing.assert_allclose(
        *([float(row["predicted_logp"]) for row in rows] for rows in (one, two)),
        rtol=1e-4,
        atol=1e-5,
    )


def test_chosen_columns_in_the_chosen_order(model, tmp_path):
    table = write_molecules(tmp_path / "in.csv")
    options = FileOptions(columns=["kind", "smiles"])
    predict_file(load(model), table, tmp_path / "out.csv", options)
    header = (tmp_path / "out.csv").read_text().splitlines()[0].split(",")
    assert header[:3] == ["kind", "smiles", "predicted_logp"]
    options = FileOptions(columns=["colour"])
    with pytest.raises(DataError, match="'colour'"):
        predict_file(load(model), table, tmp_path / "out.csv", options)


def test_its_own_output_is_an_input(model, tmp_path):
    table = write_molecules(tmp_path / "in.csv")
    first, second, third = (tmp_path / f"{n}.csv" for n in "abc")
    predict_file(load(model), table, first)
    with pytest.raises(DataError, match="'predicted_logp'"):
        predict_file(load(model), first, second)
    predict_file(load(model), first, second, FileOptions(replace=True))
    assert second.read_text() == first.read_text()
    predict_file(load(model), first, third, FileOptions(prefix="again_"))
    for row in rows_of(third):
        assert row["again_predicted_logp"] == row["predicted_logp"]
    # Ends of an interval around the old predictions would be wrong for the new ones.
    old = tmp_path / "old.csv"
    ends = "smiles,predicted_logp,predicted_logp_low,predicted_logp_std,other"
    old.write_text(f"{ends}\nCCO,7,6,1,x\n")
    predict_file(load(model), old, second, FileOptions(replace=True))
    (row,) = rows_of(second)
    assert row.keys().isdisjoint(["predicted_logp_low", "predicted_logp_std"])
    assert row["other"] == "x"


class Stops(Predictor):
    """Predicts two blocks."""

    blocks = 0

    def rows(self, block, interval=None):
        self.blocks += 1
        if self.blocks > 2:
            self.stop()
        return super().rows(block, interval)


KILLED = """
import os, signal, sys
from pathlib import Path
from fullrank import load
from fullrank.train.predict_file import FileOptions, predict_file
from train.test_predict_file import Stops

class Killed(Stops):
    def stop(self):
        os.kill(os.getpid(), signal.SIGKILL)

model, table, output = map(Path, sys.argv[1:])
predict_file(Killed(load(model).models), table, output, FileOptions(workers=2))
"""


def test_a_killed_prediction_is_resumed(model, tmp_path):
    table, output = long_table(tmp_path / "in.csv", 4), tmp_path / "out.csv"
    arguments = [sys.executable, "-c", KILLED, model, table, output]
    ended = subprocess.run(list(map(str, arguments)), env=environment())
    assert ended.returncode == -signal.SIGKILL
    assert not output.exists()
    with pytest.raises(ConfigError, match=f"{2 * MOLECULES_AT_ONCE:,}"):
        predict_file(load(model), table, output)
    # As if it had been killed in the middle of writing.
    with (tmp_path / "out.csv.part").open("a") as stream:
        stream.write('CCO,12,"')
    count = predict_file(load(model), table, output, FileOptions(resume=True))
    assert count.resumed == 2 * MOLECULES_AT_ONCE
    truth = predict_file(load(model), table, tmp_path / "whole.csv")
    assert output.read_text() == (tmp_path / "whole.csv").read_text()
    assert (count.predicted, count.failed) == (truth.predicted, truth.failed)
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"in.csv", "out.csv", "whole.csv"}


class Interrupting(Stops):
    def stop(self):
        raise Interrupted


def test_another_table_is_not_resumed(model, tmp_path):
    table, output = long_table(tmp_path / "in.csv", 3), tmp_path / "out.csv"
    with pytest.raises(Interrupted):
        predict_file(Interrupting(load(model).models), table, output)
    with table.open("a") as stream:
        stream.write("C,1,1,1,1,chain\n")
    with pytest.raises(ConfigError, match=r"out\.csv\.part"):
        predict_file(load(model), table, output, FileOptions(resume=True))
    (tmp_path / "out.csv.part.json").unlink()
    predict_file(load(model), table, output)
    assert len(rows_of(output)) == len(rows_of(table))


def test_rows_that_were_changed_are_not_resumed(model, tmp_path):
    table, output = long_table(tmp_path / "in.csv", 3), tmp_path / "out.csv"
    with pytest.raises(Interrupted):
        predict_file(Interrupting(load(model).models), table, output)
    part = tmp_path / "out.csv.part"
    part.write_text(part.read_text().replace("CCO,", "CCN,", 1))
    with pytest.raises(DataError, match=str(part)):
        predict_file(load(model), table, output, FileOptions(resume=True))
    part.unlink()
    with pytest.raises(DataError, match=str(part)):
        predict_file(load(model), table, output, FileOptions(resume=True))
