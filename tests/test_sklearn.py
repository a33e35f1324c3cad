import pickle

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

from fullrank.errors import DataError
from fullrank.sklearn import MoleculeClassifier, MoleculeRegressor
from train.samples import SMILES

pytestmark = pytest.mark.usefixtures("one_thread")
LOGP = np.array([Crippen.MolLogP(Chem.MolFromSmiles(text)) for text in SMILES])
QUICK = {
    "ensemble": 2,
    "epochs": 12,
    "settings": {
        "model": {"hidden": 16, "layers": 1},
        "training": {"batch_size": 8},
    },
}


@pytest.mark.parametrize("estimator", [MoleculeRegressor(), MoleculeClassifier()])
@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_estimator_tags_renamed,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_mixin_order,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_set_params,
        estimator_checks.check_valid_tag_types,
    ],
    ids=lambda check: check.__name__,
)
def test_checks_of_scikit_learn_that_need_no_numbers(estimator, check):
    check(type(estimator).__name__, estimator)


def test_regression_learns_and_survives_a_pickle():
    model = MoleculeRegressor(**QUICK).fit(SMILES, LOGP)
    found = model.predict(SMILES)
    assert found.shape == LOGP.shape
    assert model.score(SMILES, LOGP) > 0.5
    assert (pickle.loads(pickle.dumps(model)).predict(SMILES) == found).all()
    assert np.isnan(model.predict(["C", "not a molecule"])).tolist() == [False, True]


def test_the_same_seed_is_the_same_model_and_a_clone_is_not_fitted():
    quick = {**QUICK, "epochs": 1, "ensemble": 1}
    one = MoleculeRegressor(**quick).fit(SMILES, LOGP)
    other = clone(one).fit(np.array(SMILES).reshape(-1, 1), LOGP)
    assert (one.predict(SMILES) == other.predict(SMILES)).all()
    with pytest.raises(NotFittedError):
        clone(one).predict(SMILES)


def test_several_targets_with_holes():
    values = np.column_stack([LOGP, -LOGP])
    values[::3, 1] = np.nan
    model = MoleculeRegressor(**{**QUICK, "epochs": 1}).fit(SMILES, values)
    assert model.predict(SMILES[:5]).shape == (5, 2)


@pytest.mark.parametrize("names", [("out", "in"), ("c", "a", "b")])
def test_classes_are_those_of_the_labels(names):
    codes = np.digitize(LOGP, np.quantile(LOGP, np.arange(1, len(names)) / len(names)))
    labels = np.array(names)[codes]
    model = MoleculeClassifier(**QUICK).fit(SMILES, labels)
    probabilities = model.predict_proba(SMILES)
    assert model.classes_.tolist() == sorted(names)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert model.score(SMILES, labels) > 0.6


def test_cross_validation_in_a_pipeline():
    quick = {**QUICK, "epochs": 1, "ensemble": 1}
    strip = FunctionTransformer(lambda X: [text.strip() for text in X])
    steps = make_pipeline(strip, MoleculeRegressor(**quick))
    padded = np.array([f" {text} " for text in SMILES])
    assert cross_val_predict(steps, padded, LOGP, cv=2).shape == LOGP.shape


def test_bad_input_is_named():
    with pytest.raises(DataError, match="molecule 1"):
        MoleculeRegressor(**QUICK).fit(["C", "nonsense", *SMILES], [0, 1, *LOGP])
    with pytest.raises(DataError, match="3"):
        MoleculeRegressor(**QUICK).fit([3.0, 4.0], [1, 2])
    with pytest.raises(DataError, match="'a'"):
        MoleculeClassifier(**QUICK).fit(SMILES, ["a"] * len(SMILES))
