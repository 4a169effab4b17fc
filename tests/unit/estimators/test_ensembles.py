"""Ensembles of scikit-learn: they write labels as whole numbers, give weights, and draw rows twice."""

import numpy as np
import pytest
import sklearn
from joblib import parallel_config
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import sottovoce as sv
from sottovoce.estimators.persistence import model_from_json, model_to_json
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.report.verification import verify_receipt

NAMES = ["no", "yes"]
BUDGET = {"epsilon": 4.0, "delta": 1e-4, "random_state": 0}


def table(n=800, names=NAMES):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (n, 3))
    return X, np.array(names)[(X @ np.eye(3, len(names))).argmax(axis=1)]


def logistic(**options):
    return sv.DPLogisticRegression(**{**BUDGET, "data_norm": 2.0, "classes": NAMES, **options})


def test_weights_are_routed():
    X, y = table()
    weights = np.where(X[:, 0] > 0, 2.0, 0.5)
    member = logistic(max_sample_weight=2.0)
    with sklearn.config_context(enable_metadata_routing=True):
        whole = VotingClassifier([("a", member.set_fit_request(sample_weight=True))]).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(whole.estimators_[0].coef_, member.fit(X, y, sample_weight=weights).coef_)


@pytest.mark.parametrize("bootstrap", [True, False])
def test_bagging_gives_weights(bootstrap):
    """Counts of a row are clipped to the public bound, so copies cost what the receipt says."""
    X, y = table()
    member = logistic(max_sample_weight=2.0, random_state=None)
    whole = BaggingClassifier(member, 2, max_samples=0.8, bootstrap=bootstrap, random_state=0).fit(X, y)
    assert whole.score(X, y) > 0.75
    assert "weights were clipped to [0, 2.0]" in " ".join(whole.estimators_[0].guarantee_.assumptions)
    with pytest.raises(ParameterError, match=r"max_sample_weight is missing: with sample_weight \(which bagging gives"):
        BaggingClassifier(logistic(), 2, bootstrap=bootstrap).fit(X, y)


def test_bagging_copies_no_rows():
    X, y = table()
    sparse = sv.DPSparseLogisticRegression(**BUDGET, data_bound=1.0, radius=5.0, classes=NAMES)
    lasso = sv.DPLasso(**BUDGET, data_bound=1.0, radius=5.0, label_bounds=(-1, 1))
    search = sv.DPSearchCV(logistic(epsilon=None, delta=None, random_state=None), {"alpha": [1e-4]}, **BUDGET, n_iter=1)
    for kind, member, labels in (
        (BaggingClassifier, sparse, y),
        (BaggingClassifier, make_pipeline(Normalizer(), logistic()), y),
        (BaggingClassifier, search, y),
        (BaggingRegressor, lasso, X[:, 0]),
        (BaggingClassifier, make_pipeline(sv.DPScaler(epsilon=1.0, delta=1e-4), LogisticRegression()), y),
    ):
        with pytest.raises(
            ParameterError, match=r"bootstrap=True copies rows, and a row that is there k times costs k"
        ):
            kind(member, 2).fit(X, labels)
    assert BaggingClassifier(sparse, 2, bootstrap=False, max_samples=0.5).fit(X, y).score(X, y) > 0.7
    without_noise = sparse.set_params(epsilon=np.inf)
    assert BaggingClassifier(without_noise, 2).fit(X, y).score(X, y) > 0.7


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_bagging_seeds_no_noise(n_jobs):
    """Bagging sets a seed of 31 bits in its members; it counts as one only if somebody gave it."""
    X, y = table(300)
    member = logistic(max_sample_weight=2.0, random_state=None)
    with parallel_config("multiprocessing"):  # forks, which have all modules
        for given, seeded in ((None, False), (0, True)):
            whole = BaggingClassifier(member, 2, random_state=given, n_jobs=n_jobs).fit(X, y)
            assert [fitted.guarantee_.seeded for fitted in whole.estimators_] == [seeded, seeded]
    again = BaggingClassifier(member, 2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.estimators_[0].coef_, whole.estimators_[0].coef_)


def test_one_vs_one_and_one_vs_rest_need_their_own_classes():
    names = ["a", "b", "c"]
    X, y = table(names=names)
    for kind in (OneVsOneClassifier, OneVsRestClassifier):
        assert kind(logistic(classes=[0, 1])).fit(X, y).score(X, y) > 0.8


@pytest.mark.parametrize("options", [{}, {"class_weight": {"no": 1.0, "yes": 2.0}}], ids=["plain", "weights"])
def test_places_are_the_same_model(options, tmp_path):
    """The type of y decides; model, receipt and files are those of the classes by name."""
    X, y = table()
    by_name, by_place = logistic(**options).fit(X, y), logistic(**options).fit(X, (y == "yes").astype(np.int32))
    np.testing.assert_array_equal(by_name.coef_, by_place.coef_)
    np.testing.assert_array_equal(np.array(NAMES)[by_place.predict(X)], by_name.predict(X))
    assert by_place.classes_.tolist() == [0, 1]
    assert 'the list of classes, given: "no", "yes"' in by_name.guarantee_.assumptions
    assert (
        'the list of classes, given: "no", "yes" (labels came as places in it, 0 to 1)'
        in by_place.guarantee_.assumptions
    )
    path = tmp_path / "model.json"
    path.write_text(model_to_json(by_place), encoding="utf-8")
    assert verify_receipt(path).passed
    again, _ = model_from_json(path.read_text(encoding="utf-8"))
    np.testing.assert_array_equal(again.predict(X), by_place.predict(X))


def test_search_takes_places():
    X, y = table()
    search = sv.DPSearchCV(
        logistic(epsilon=None, delta=None, random_state=None), {"alpha": [1e-4, 1e-3]}, **BUDGET, n_iter=2
    )
    assert set(search.fit(X, (y == "yes").astype(int)).predict(X)) <= {0, 1}


def test_what_is_no_place_is_refused():
    X, y = table()
    code = (y == "yes").astype(int)
    with pytest.raises(DataError, match=r"the label 2 \(row 0, 1 row\(s\) in all\), which is not a place"):
        logistic().fit(X, np.r_[2, code[1:]])
    with pytest.raises(DataError, match=r"the label 1\.0 .* which is not in classes=\['no', 'yes'\]"):
        logistic().fit(X, code.astype(float))
    with pytest.raises(
        DataError, match=r"the label 0 .* not in classes=\[1, 2\].* Ensembles of scikit-learn number labels"
    ):
        logistic(classes=[1, 2]).fit(X, code)
    with pytest.raises(DataError, match=r"the label 'yes' .* in classes=\['no', 'si'\]\. Add it .*before fit\.$"):
        logistic(classes=["no", "si"]).fit(X, y)


def test_persons_are_routed():
    """Copies of a row have the same person, of whom at most so many rows are used: no copy costs more."""
    X, y = table()
    persons = np.arange(len(y)) // 4
    member = logistic(max_rows_per_group=4)
    with sklearn.config_context(enable_metadata_routing=True):
        member.set_fit_request(groups=True)
        voting = VotingClassifier([("a", member)]).fit(X, y, groups=persons)
        bagging = BaggingClassifier(member, 2, random_state=0).fit(X, y, groups=persons)
        with pytest.raises(ParameterError, match="bootstrap=True copies rows"):
            BaggingClassifier(logistic(), 2).fit(X, y)
    np.testing.assert_array_equal(voting.estimators_[0].coef_, member.fit(X, y, groups=persons).coef_)
    for fitted in (voting.estimators_[0], *bagging.estimators_):
        assert fitted.guarantee_.unit.startswith("one person: all rows of one group, of which at most 4 rows")
