import csv
from pathlib import Path
from typing import get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fullrank.train import Config, ConfigError, load_config, parse, ready_configs
from shared_data import shared_data

BASE = {"data": {"name": "qm9", "targets": ["gap"]}}


def changed(**sections):
    return parse({**BASE, **sections})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"model": {"hiden": 128}}, ["'model.hiden'", "128", "did you mean 'hidden'"]),
        ({"modl": {}}, ["'modl'", "did you mean 'model'"]),
        ({"model": {"hidden": "wide"}}, ["model.hidden = 'wide'", "integer"]),
        ({"model": {"conv": "exp"}}, ["model.conv = 'exp'", "did you mean 'expc'"]),
        ({"model": {"conv": "gcn", "s": 4}}, ["s is for expc", "gcn"]),
        ({"model": {"conv": "gcn", "re_sum": True}}, ["re_sum is for expc"]),
        (
            {"model": {"s": 4, "conv_args": {"num_aggregators": 8}}},
            ["s is 4 and conv_args.num_aggregators is 8"],
        ),
        (
            {"model": {"re_sum": True, "conv_args": {"re_sum": False}}},
            ["re_sum is True and conv_args.re_sum is False"],
        ),
        (
            {"model": {"conv": "pna", "conv_args": {"deg": [1, 2]}}},
            ["conv_args.deg is [1, 2]", "counted in the training graphs"],
        ),
        ({"model": {"conv": "expc-structural"}}, ["expc-structural", "data.structure"]),
        ({"data": {"name": "qm9", "structure": {"hop": 2}}}, ["did you mean 'hops'"]),
        (
            {"data": {"name": "qm9", "structure": {"hops": -1}}},
            ["data.structure.hops = -1", "greater than or equal to 0"],
        ),
        ({"model": {"dropout": 1.5}}, ["model.dropout = 1.5", "less than 1"]),
        ({"optimizer": {"lr": -1}}, ["optimizer.lr = -1", "greater than 0"]),
        ({"seeds": [1, 1]}, ["[1, 1]", "twice"]),
        ({"seeds": []}, ["seeds = []"]),
        ({"split": {"fold": 3}}, ["'gin' and 'fair'"]),
        ({"split": {"kind": "gin", "fold": 10}}, ["fold 10 of 10"]),
        (
            {"split": {"kind": "gin"}, "training": {"patience": 3}},
            ["training.patience", "'gin' has none"],
        ),
        ({"compute": {"devices": 3}}, ["64", "3 processes"]),
        ({"training": {"class_weights": "equal"}}, ["class_weights = 'equal'"]),
    ],
)
def test_what_is_wrong_is_named(values, expected):
    with pytest.raises(ConfigError) as error:
        changed(**values)
    for words in expected:
        assert words in str(error.value)


def test_missing_data_is_named():
    with pytest.raises(ConfigError, match="'data' is missing"):
        parse({})


def test_changes_from_the_command_line(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(BASE))
    changes = ["model.hidden=128", "optimizer.lr=1e-4", "data.targets=[mu, gap]"]
    config = load_config(file, changes)
    assert config.model.hidden == 128
    assert config.optimizer.lr == 1e-4
    assert config.data.targets == ["mu", "gap"]


@pytest.mark.parametrize("change", ["model.hidden", "data.name.x=1", "model.s=[1"])
def test_bad_changes_are_quoted(tmp_path, change):
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(BASE))
    with pytest.raises(ConfigError) as error:
        load_config(file, [change])
    assert repr(change) in str(error.value)


@pytest.mark.parametrize("text", ["- 1", "a: [", ""])
def test_file_that_is_no_configuration(tmp_path, text):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"run\.yaml"):
        load_config(file)


def test_unknown_ready_configuration_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'expc/qm9-gap'"):
        load_config("expc/qm9-gp")


def test_text_is_the_same_configuration(tmp_path):
    config = changed(model={"s": 16}, split={"kind": "random", "seed": 3})
    file = tmp_path / "config.yaml"
    file.write_text(config.text())
    assert load_config(file) == config


def test_text_may_hold_every_key(tmp_path):
    config = changed()
    values = yaml.safe_load(config.text(every_key=True))
    assert values["data"]["smiles"] is None
    assert "smiles" not in yaml.safe_load(config.text())["data"]
    assert parse(values) == config


def keys_of(model, start=""):
    """All keys of a section, those of its own sections among them."""
    for name, field in model.model_fields.items():
        yield f"{start}{name}"
        for kind in (field.annotation, *get_args(field.annotation)):
            if hasattr(kind, "model_fields"):
                yield from keys_of(kind, f"{start}{name}.")


def test_every_key_is_documented():
    page = Path(__file__).parents[2] / "docs" / "train.md"
    rows = page.read_text("utf-8").partition("## All keys")[2].splitlines()
    listed = [row.split("`")[1] for row in rows if row.startswith("| `")]
    sections = {key.partition(".")[0] for key in listed if "." in key}
    assert sorted([*listed, *sections]) == sorted(keys_of(Config))


@pytest.mark.parametrize(
    "sections",
    [
        {"compute": {"devices": 2}},
        {"runs": "elsewhere"},
        {"data": {**BASE["data"], "root": "elsewhere"}},
        {"training": {"epochs": 7}},
        {"training": {"epochs": 7}, "schedule": {"name": "step"}},
    ],
)
def test_id_ignores_what_does_not_determine_the_result(sections):
    schedule = {k: v for k, v in sections.items() if k == "schedule"}
    assert changed(**sections).id == changed(**schedule).id


@pytest.mark.parametrize("schedule", ["cosine", "onecycle"])
def test_id_knows_the_epochs_where_the_schedule_does(schedule):
    long, short = (
        changed(schedule={"name": schedule}, training={"epochs": epochs})
        for epochs in (20, 10)
    )
    assert long.id != short.id


@given(
    one=st.tuples(st.integers(1, 64), st.integers(0, 5), st.sampled_from([1e-3, 1e-4])),
    other=st.tuples(
        st.integers(1, 64), st.integers(0, 5), st.sampled_from([1e-3, 1e-4])
    ),
)
def test_id_is_the_same_exactly_for_the_same_values(one, other):
    def build(hidden, seed, lr):
        return changed(model={"hidden": hidden}, seeds=[seed], optimizer={"lr": lr})

    assert (build(*one).id == build(*other).id) == (one == other)


def test_id_of_a_table_follows_its_content_not_its_place(tmp_path):
    files = [tmp_path / "a" / "t.csv", tmp_path / "b" / "t.csv"]
    for file in files:
        file.parent.mkdir()
        file.write_text("smiles,y\nC,1\n")
    configs = [parse({"data": {"name": str(file), "targets": ["y"]}}) for file in files]
    assert configs[0].id == configs[1].id
    files[1].write_text("smiles,y\nC,2\n")
    assert configs[0].id != configs[1].id


def test_own_data_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graphs").mkdir()
    (tmp_path / "MUTAG").mkdir()
    names = ["t.csv", "graphs", "./MUTAG", "MUTAG", "qm9"]
    found = [parse({"data": {"name": name}}).data.name for name in names]
    own = [str(tmp_path / name) for name in ("t.csv", "graphs", "MUTAG")]
    assert found == [*own, "MUTAG", "qm9"]


def test_ready_configurations_have_the_papers_hyperparameters():
    table = shared_data().parent / "paper" / "hyperparameters.csv"
    with table.open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 38
    for row in rows:
        name = f"{row['family'].lower()}/{row['dataset'].replace('/', '-')}"
        config = load_config(name)
        model, schedule = config.model, config.schedule
        assert config.training.batch_size == int(row["batch_size"])
        assert config.training.epochs == int(row["epochs_authors_code"])
        assert (model.layers, model.hidden) == (int(row["layers"]), int(row["hidden"]))
        assert model.dropout == float(row["dropout"])
        assert model.readout == row["readout"]
        assert model.batch_norm == (row["batch_norm"] == "yes")
        assert config.optimizer.lr == float(row["lr"])
        assert (schedule.name, schedule.every) == ("step", int(row["step_size"]))
        assert schedule.factor == float(row["lr_decay"])
        if row["family"] == "ExpC":
            assert str(model.s) in row["s"].split()
        if row["dataset"].startswith("qm9/"):
            assert config.data.targets == [Path(row["dataset"]).name]


def test_every_ready_configuration_is_valid():
    names = list(ready_configs())
    assert len(names) == 40  # the paper's 38 and ogbg-code2 for each family
    assert len({load_config(name).id for name in names}) == 40
