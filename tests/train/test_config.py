from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fullrank.cli.train import keys_table
from fullrank.errors import ConfigError
from fullrank.train import load_config, parse

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
        ({"model": {"conv": "gin0", "init": "balanced"}}, ["init is for expc"]),
        ({"model": {"init": "glorot"}}, ["model.init", "'glorot'"]),
        ({"model": {"name": "pgn"}}, ["model.name = 'pgn'", "did you mean 'ppgn'"]),
        ({"model": {"name": "ppgn", "s": 4}}, ["s is for a GraphNet", "ppgn"]),
        ({"model": {"name": "dgk", "readout": "mean"}}, ["readout is for a GraphNet"]),
        ({"model": {"args": {"width": 3}}}, ["args is for models with a name"]),
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
        (
            {
                "data": {"name": "qm9", "structure": {"hops": 2}},
                "model": {"conv": "expc-continuous"},
            },
            ["expc-continuous", "{kind: continuous}"],
        ),
        (
            {"data": {"name": "qm9", "structure": {"kind": "continuous", "hops": 2}}},
            ["structure", "hops"],
        ),
        ({"data": {"name": "qm9", "structure": {"hop": 2}}}, ["did you mean 'hops'"]),
        (
            {"data": {"name": "qm9", "structure": {"hops": -1}}},
            ["data.structure.hops = -1", "greater than or equal to 0"],
        ),
        ({"model": {"dropout": 1.5}}, ["model.dropout = 1.5", "less than 1"]),
        ({"optimizer": {"lr": -1}}, ["optimizer.lr = -1", "greater than 0"]),
        ({"seeds": [1, 1]}, ["[1, 1]"]),
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
    with pytest.raises(ConfigError, match="'data'"):
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


def test_text_is_the_same_configuration(tmp_path):
    config = changed(model={"s": 16}, split={"kind": "random", "seed": 3})
    file = tmp_path / "config.yaml"
    file.write_text(config.text())
    assert load_config(file) == config


def test_text_may_hold_every_key(tmp_path):
    config = changed()
    values = yaml.safe_load(config.text(every_key=True))
    assert values["data"]["limit"] is None
    assert "limit" not in yaml.safe_load(config.text())["data"]
    assert parse(values) == config


def test_every_key_is_documented():
    """``fullrank train --keys`` prints the table of the documentation."""
    page = Path(__file__).parents[2] / "docs" / "train.md"
    assert keys_table() in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"name": "qm9", "task": "binary"}, ["'data.task'", '"binary"']),
        ({"name": "qm9", "limt": 3}, ["'data.limt'", "did you mean 'limit'"]),
        ({"name": "MUTAG", "smiles": "x"}, ["'data.smiles'", "mirror"]),
        ({"name": "t.csv", "task": "guess"}, ["data.task = 'guess'"]),
        ({"name": "MUTG"}, ["'MUTG'", "did you mean 'MUTAG'"]),
        ({"name": "qm9", "kind": "guess"}, ["guess"]),
        ({"targets": ["y"]}, ["'data.name' is missing"]),
        ({"name": ["x"]}, ["'data.name'"]),
        (3, ["data = 3"]),
    ],
)
def test_an_option_belongs_to_its_source(data, expected):
    with pytest.raises(ConfigError) as error:
        parse({"data": data})
    for words in expected:
        assert words in str(error.value)


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
def test_digest_ignores_what_does_not_determine_the_result(sections):
    schedule = {k: v for k, v in sections.items() if k == "schedule"}
    assert changed(**sections).digest == changed(**schedule).digest


@pytest.mark.parametrize("schedule", ["cosine", "onecycle"])
def test_digest_knows_the_epochs_where_the_schedule_does(schedule):
    long, short = (
        changed(schedule={"name": schedule}, training={"epochs": epochs})
        for epochs in (20, 10)
    )
    assert long.digest != short.digest


@given(
    one=st.tuples(st.integers(1, 64), st.integers(0, 5), st.sampled_from([1e-3, 1e-4])),
    other=st.tuples(
        st.integers(1, 64), st.integers(0, 5), st.sampled_from([1e-3, 1e-4])
    ),
)
def test_digest_is_the_same_exactly_for_the_same_values(one, other):
    def build(hidden, seed, lr):
        return changed(model={"hidden": hidden}, seeds=[seed], optimizer={"lr": lr})

    assert (build(*one).digest == build(*other).digest) == (one == other)


def test_seeds_and_folds_share_the_digest_of_their_experiment():
    one = changed(split={"kind": "fair", "fold": 1}, seeds=[3])
    other = changed(split={"kind": "fair"}, seeds=[0, 1])
    assert one.digest != other.digest
    assert one.experiment_digest == other.experiment_digest
    gin = changed(split={"kind": "gin"})
    assert gin.experiment_digest != other.experiment_digest


def test_own_data_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("graphs", "MUTAG"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}_A.txt").write_text("1, 2\n")
    names = ["t.csv", "graphs", "./MUTAG", "MUTAG", "qm9"]
    found = [parse({"data": {"name": name}}).data.name for name in names]
    own = [str(tmp_path / name) for name in ("t.csv", "graphs", "MUTAG")]
    assert found == [*own, "MUTAG", "qm9"]
