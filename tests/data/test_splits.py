import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullrank.data import (
    DataError,
    Split,
    folds_fingerprint,
    hold_out,
    random_split,
    scaffold_split,
    stratified_folds,
    zhang_folds,
)
from fullrank.data.splits import PARTS, set_aside
from shared_data import shared_data


@given(num_graphs=st.integers(3, 500), seed=st.integers(0, 9))
def test_random_split_is_a_partition(num_graphs, seed):
    split = random_split(num_graphs, seed=seed)
    together = np.concatenate([split.train, split.valid, split.test])
    assert sorted(together) == list(range(num_graphs))
    assert len(split.train) == int(0.8 * num_graphs + 1e-9)


def test_qm9_sizes_and_seeds():
    split = random_split(130_831, seed=1)
    assert [len(split.train), len(split.valid), len(split.test)] == [
        104_664,
        13_083,
        13_084,
    ]
    assert np.array_equal(split.test, random_split(130_831, seed=1).test)
    assert not np.array_equal(split.test, random_split(130_831, seed=2).test)


@given(labels=st.lists(st.integers(0, 3), min_size=10, max_size=200))
def test_folds_test_each_graph_once_and_spread_every_class(labels):
    labels = np.array(labels)
    folds = stratified_folds(labels, k=10)
    assert sorted(np.concatenate([f.test for f in folds])) == list(range(len(labels)))
    for fold in folds:
        together = np.concatenate([fold.train, fold.test])
        assert sorted(together) == list(range(len(labels)))
    for label in np.unique(labels):
        counts = [int((labels[fold.test] == label).sum()) for fold in folds]
        assert max(counts) - min(counts) <= 1


def test_hold_out_takes_its_part_of_every_class_from_training_only():
    labels = np.array([0] * 60 + [1] * 140)
    fold = stratified_folds(labels)[0]
    split = hold_out(fold, 0.1, seed=5, labels=labels)
    assert np.array_equal(split.test, fold.test)
    assert sorted(np.concatenate([split.train, split.valid])) == fold.train.tolist()
    assert len(split.valid) == 18
    assert 4 <= (labels[split.valid] == 0).sum() <= 7


def test_saved_split_comes_back(tmp_path):
    split = random_split(50, seed=7)
    split.save(tmp_path / "split.json")
    again = Split.load(tmp_path / "split.json")
    for part in ("train", "valid", "test"):
        assert np.array_equal(getattr(again, part), getattr(split, part))
    assert again.how == {"kind": "random", "seed": 7, "fractions": [0.8, 0.1, 0.1]}


def test_what_is_no_split_is_refused(tmp_path):
    file = tmp_path / "split.json"
    with pytest.raises(DataError, match=r"split\.json"):
        Split.load(file)
    file.write_text('{"train": [1, 2]}')
    with pytest.raises(DataError, match=r"split\.json"):
        Split.load(file)
    with pytest.raises(DataError, match=" 2 "):
        Split(np.array([1, 2]), np.array([2]), np.array([3]))
    with pytest.raises(DataError, match="9.*5"):
        Split(np.array([1]), np.array([2]), np.array([9])).check(5)


def test_published_folds_of_zhang():
    for name, graphs in (("MUTAG", 188), ("COLLAB", 5000)):
        folds = zhang_folds(shared_data() / "tu_folds" / name, graphs)
        tested = np.concatenate([fold.test for fold in folds])
        assert len(folds) == 10
        assert len(np.unique(tested)) == len(tested) == graphs - graphs % 10


def write_folds(folder, num_graphs=30):
    """The files of Zhang et al.: every tenth graph is tested in a fold."""
    folder.mkdir()
    everything = np.arange(num_graphs)
    for fold in range(10):
        test = everything[fold::10]
        for part, indices in (
            ("train", np.setdiff1d(everything, test)),
            ("test", test),
        ):
            np.savetxt(folder / f"{part}_idx-{fold + 1}.txt", indices, fmt="%d")
    return folder


def test_folds_of_zhang(tmp_path):
    folder = write_folds(tmp_path / "folds")
    folds = zhang_folds(folder, 30)
    assert [fold.test.tolist() for fold in folds] == [
        [i, i + 10, i + 20] for i in range(10)
    ]
    assert [fold.how["fold"] for fold in folds] == list(range(10))
    with pytest.raises(DataError, match="1 .*folds.* 20"):
        zhang_folds(folder, 20)


def test_folds_have_the_fingerprint_of_their_content(tmp_path):
    folder = write_folds(tmp_path / "folds")
    first = folds_fingerprint(folder)
    assert folds_fingerprint(write_folds(tmp_path / "copy")) == first
    (folder / "train_idx-1.txt").write_text(
        (folder / "train_idx-1.txt").read_text() + "\n"
    )
    assert folds_fingerprint(folder) == first
    swapped = [folder / f"test_idx-{fold}.txt" for fold in (3, 4)]
    texts = [file.read_text() for file in swapped]
    for file, text in zip(swapped, reversed(texts), strict=True):
        file.write_text(text)
    assert folds_fingerprint(folder) != first


def test_missing_fold_is_named(tmp_path):
    with pytest.raises(DataError, match=r"train_idx-1\.txt"):
        zhang_folds(tmp_path, 10)
    write_folds(tmp_path / "folds")
    (tmp_path / "folds" / "train_idx-2.txt").write_text("1\n1\n")
    with pytest.raises(DataError, match="2 .*folds.* 1 "):
        zhang_folds(tmp_path / "folds", 30)
    (tmp_path / "folds" / "test_idx-10.txt").write_text("1\nx\n")
    with pytest.raises(DataError, match=r"test_idx-10\.txt"):
        folds_fingerprint(tmp_path / "folds")


def test_scaffolds_stay_together():
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    rings = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCNC1", "c1ccoc1"]
    smiles = [ring + tail for ring in rings for tail in ("C", "CC", "O", "N")]
    split = scaffold_split(smiles, (0.6, 0.2, 0.2))
    scaffolds = [
        {MurckoScaffoldSmiles(smiles[i]) for i in part}
        for part in (split.train, split.valid, split.test)
    ]
    assert [len(part) for part in (split.train, split.valid, split.test)] == [12, 4, 4]
    assert not scaffolds[0] & scaffolds[1] | scaffolds[0] & scaffolds[2]


def test_a_group_that_is_nearly_everything_is_for_training():
    split = scaffold_split(["c1ccccc1"] * 9 + ["C1CC1"])
    assert split.train.tolist() == list(range(9))
    assert split.test.tolist() + split.valid.tolist() == [9]


@given(
    molecules=st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=60),
    seed=st.integers(0, 5),
)
def test_equal_molecules_stay_in_one_part(molecules, seed):
    split = random_split(len(molecules), seed=seed, molecules=molecules)
    parts = [{molecules[i] for i in getattr(split, part)} for part in PARTS]
    assert sum(map(len, parts)) == len(set(molecules))
    everything = np.concatenate([split.train, split.valid, split.test])
    assert sorted(everything) == list(range(len(molecules)))


def test_different_molecules_are_shuffled_as_graphs_are():
    names = [str(i) for i in range(100)]
    one, other = random_split(100, seed=3), random_split(100, seed=3, molecules=names)
    for part in PARTS:
        assert (getattr(one, part) == getattr(other, part)).all()


class TestSetAside:
    def test_moves_training_graphs_only(self):
        before = random_split(200, seed=3)
        after = set_aside(before, 0.25, seed=1)
        assert len(after.calibration) == 40
        assert set(after.train) | set(after.calibration) == set(before.train)
        assert not set(after.train) & set(after.calibration)
        assert np.array_equal(after.test, before.test)
        assert np.array_equal(after.valid, before.valid)
        assert np.array_equal(set_aside(before, 40, seed=1).train, after.train)

    def test_equal_molecules_stay_together(self):
        molecules = [f"molecule {i % 30}" for i in range(200)]
        split = set_aside(random_split(200), 0.2, molecules=molecules)
        train = {molecules[i] for i in split.train}
        assert not train & {molecules[i] for i in split.calibration}
        assert 32 <= len(split.calibration) < 48

    def test_is_saved_and_loaded(self, tmp_path):
        split = set_aside(random_split(50), 10)
        split.save(tmp_path / "split.json")
        loaded = Split.load(tmp_path / "split.json")
        assert np.array_equal(loaded.calibration, split.calibration)
        assert loaded.how == split.how

    @pytest.mark.parametrize("amount", [0.001, 40, 1000])
    def test_an_amount_that_cannot_be_set_aside(self, amount):
        with pytest.raises(DataError, match=f"{amount}"):
            set_aside(random_split(50), amount)
