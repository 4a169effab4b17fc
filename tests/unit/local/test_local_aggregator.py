"""The server's side: what is added, refused, merged, stored and read back; models and their receipts."""

import hashlib
import json
import math

import numpy as np
import pytest

from sottovoce.exceptions import DataError, MessageError, ModelFormatError, ParameterError
from sottovoce.local import Aggregator, LocalModel, NumericFeature, Protocol, Randomizer
from sottovoce.local.candidates import normal_quantile
from sottovoce.local.fits.fitting import layout_of
from sottovoce.local.fits.held_out import folds_of
from sottovoce.local.fits.moments import MomentEstimate, Moments
from sottovoce.local.fits.ridge import ridge_by_folds
from sottovoce.local.server.aggregator import fold_of
from sottovoce.local.wire import REPORT_BYTES, pack
from support.simulated_reports import candidates, simulate

PROTOCOL = Protocol(epsilon=4.0, n_features=3, completion="slack")
REGRESSION = Protocol(epsilon=4.0, n_features=2, task="regression", label_bounds=(10.0, 20.0), completion="slack")


def honest(n=300, protocol=PROTOCOL, seed=0):
    rng = np.random.default_rng(seed)
    seeds, indices = rng.integers(0, 2**64, n, dtype=np.uint64), rng.integers(0, protocol.K, n)
    return [pack(protocol, int(seed), int(index)) for seed, index in zip(seeds, indices, strict=True)]


def vectors_of(reports, protocol=PROTOCOL):
    rows = [(int.from_bytes(r[12:20], "little"), int.from_bytes(r[20:], "little")) for r in reports]
    seeds, indices = np.array([r[0] for r in rows], np.uint64), np.array([r[1] for r in rows])
    return seeds, indices, candidates(seeds, indices, protocol.d)


def same(one, other):
    for name in ("count", "first", "second"):
        np.testing.assert_allclose(getattr(one.moments, name), getattr(other.moments, name), rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(one.index_counts, other.index_counts)
    assert one.rejected_ == other.rejected_


def learned(n=4000, **options):
    """An aggregator that has learnt y = sign(x0 - x1) from simulated vectors."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.5, 0.5, (n, 3))
    s = np.where(X[:, 0] > X[:, 1], 1.0, -1.0)
    aggregator = Aggregator(PROTOCOL, **options)
    aggregator.moments.add(simulate(PROTOCOL, PROTOCOL.encode_many(X) * s[:, None], rng))
    return aggregator, X, s


def test_reports_become_the_sums_of_their_candidates():
    reports = honest()
    aggregator = Aggregator(PROTOCOL)
    assert aggregator.add(b"".join(reports)) == 300 == aggregator.n_reports
    seeds, indices, G = vectors_of(reports)
    folds = fold_of(seeds, 5)
    for fold in range(5):
        np.testing.assert_allclose(aggregator.moments.first[fold], G[folds == fold].sum(axis=0), rtol=1e-10)
        np.testing.assert_allclose(aggregator.moments.second[fold], G[folds == fold].T @ G[folds == fold], rtol=1e-10)
    np.testing.assert_array_equal(aggregator.index_counts, np.bincount(indices, minlength=PROTOCOL.K))


def test_folds_are_of_about_one_size():
    counts = np.bincount(fold_of(np.random.default_rng(0).integers(0, 2**64, 50_000, dtype=np.uint64), 5))
    assert np.abs(counts - 10_000).max() < 400
    assert np.abs(np.bincount(fold_of(np.arange(50_000, dtype=np.uint64), 5)) - 10_000).max() < 400


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_and_blocks_change_rounding_only(threads, monkeypatch):
    monkeypatch.setattr("sottovoce.local.server.aggregator._BLOCK_ENTRIES", 4000)
    monkeypatch.setattr("sottovoce.central.parallel._SMALL", 100)
    monkeypatch.setattr("sottovoce.local.server.aggregator._AT_ONCE", 700)
    reports = honest(3000)
    parts, whole = Aggregator(PROTOCOL, n_threads=threads), Aggregator(PROTOCOL, n_threads=1)
    parts.add(b"".join(reports))
    whole.moments.add(vectors_of(reports)[2], fold_of(vectors_of(reports)[0], 5))
    np.testing.assert_allclose(parts.moments.second, whole.moments.second, rtol=1e-11, atol=1e-10)
    assert parts.moments.count.tolist() == whole.moments.count.tolist()


def test_one_report_bytes_and_iterables_are_the_same():
    reports = honest(30)
    ways = [b"".join(reports), reports, iter(reports), [b"".join(reports[:10]), *reports[10:]]]
    ways += [bytearray(b"".join(reports)), memoryview(b"".join(reports))]
    first = Aggregator(PROTOCOL)
    assert [first.add(report) for report in reports] == [1] * 30
    for way in ways:
        other = Aggregator(PROTOCOL)
        assert other.add(way) == 30
        same(first, other)


def test_what_is_no_report_is_counted_by_reason():
    good = honest(5)
    foreign = pack(Protocol(epsilon=4.0, n_features=4), 1, 1)
    beyond = pack(PROTOCOL, 1, 0)[:20] + PROTOCOL.K.to_bytes(2, "little")
    bad = [b"", b"xx", good[0] + b"y", b"LDP2" + good[0][4:], foreign, beyond, beyond]
    aggregator = Aggregator(PROTOCOL)
    assert aggregator.add([*good, *bad]) == 5
    assert aggregator.rejected_ == {"length": 3, "magic": 1, "protocol": 1, "index": 2}
    assert aggregator.add(good[0] + b"tail") == 1
    assert aggregator.rejected_["length"] == 4
    assert aggregator.add(b"") == 0


def test_merge_is_adding():
    reports = [*honest(40), b"bad"]
    whole, one, other = (Aggregator(PROTOCOL) for _ in range(3))
    whole.add(reports)
    one.add(reports[:15])
    other.add(reports[15:])
    same(whole, one.merge(other))
    assert whole.rejected_ == {"length": 1}


def test_an_aggregator_is_stored_and_read_back(tmp_path):
    aggregator = Aggregator(PROTOCOL, 3)
    aggregator.add([*honest(20), b"bad"])
    aggregator.save(tmp_path / "sums")
    again = Aggregator.load(tmp_path / "sums")
    same(aggregator, again)
    assert again.to_bytes() == aggregator.to_bytes()
    assert (again.protocol, again.rejected_) == (PROTOCOL, {"length": 1})
    same(again.merge(aggregator), Aggregator.load(tmp_path / "sums").merge(aggregator))


def resigned(aggregator, **changes):
    data = aggregator.to_bytes()[:-32]
    length = int.from_bytes(data[8:12], "little")
    header = json.loads(data[12 : 12 + length]) | changes
    text = json.dumps(header).encode()
    content = data[:8] + len(text).to_bytes(4, "little") + text + data[12 + length :]
    return content + hashlib.sha256(content).digest()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": 2}, "version 2"),
        ({"protocol": "{}"}, "not a protocol"),
        ({"protocol": Protocol(epsilon=1.0, n_features=3).to_json()}, "different protocols"),
        ({"protocol": Protocol(epsilon=4.0, n_features=90_000, K=2, m=1, b=0.0).to_json()}, "different protocols"),
        ({"index_counts": [1]}, "counts 1 indices"),
        ({"index_counts": [2**62] * PROTOCOL.K}, "more of them than reports"),
        ({"rejected": {"length": -1}}, "length"),
        ({"rejected": {"length": 10**20}}, "length"),
        ({"rejected": {"\x1b[2J": 1}}, r"'\\x1b\[2J' is not a valid Reason"),
        ({"moments": 3}, "no sums"),
        ({"moments": None}, "moments"),
    ],
)
def test_stored_sums_that_do_not_fit_are_refused(changes, why):
    aggregator = Aggregator(PROTOCOL)
    aggregator.add(honest(4))
    assert Aggregator.from_bytes(resigned(aggregator)).n_reports == 4
    with pytest.raises(MessageError, match=why):
        Aggregator.from_bytes(resigned(aggregator, **changes))


@pytest.mark.parametrize("name", ["count", "first", "second"])
@pytest.mark.parametrize("times", [-(2**60), 2**60, 1e18, 1e300])
def test_sums_that_no_reports_have_are_refused(name, times):
    """Whoever reads the sums of another collector computes with them: nothing in them overflows later."""
    aggregator = Aggregator(PROTOCOL)
    aggregator.add(honest(4))
    changed = getattr(aggregator.moments, name)
    changed[:] = min(abs(times), 2.0**62) if name == "count" else np.float64(times)
    with pytest.raises(MessageError, match=r"larger than so many reports give|count must be"):
        Aggregator.from_bytes(aggregator.to_bytes())


@pytest.mark.parametrize("share", [1.0, 1.02])
def test_sums_of_the_longest_candidates_are_taken_and_none_that_are_longer(share):
    """A coordinate is the quantile of an odd multiple of 2^-53."""
    longest, aggregator = share * normal_quantile([1.0 - 2.0**-53]), Aggregator(PROTOCOL, 2)
    aggregator.moments.add(np.tile(longest, (7, PROTOCOL.d)))
    if share == 1.0:
        assert Aggregator.from_bytes(aggregator.to_bytes()).n_reports == 7
    else:
        with pytest.raises(MessageError, match="larger than so many reports give"):
            Aggregator.from_bytes(aggregator.to_bytes())


def test_damaged_and_missing_files_are_refused(tmp_path):
    data = Aggregator(PROTOCOL).to_bytes()
    for bad in (b"", data[:-1], data[:100] + b"x" + data[101:], b"x" + data):
        (tmp_path / "sums").write_bytes(bad)
        with pytest.raises(MessageError, match=r"sums: .*(damaged|no aggregator)"):
            Aggregator.load(tmp_path / "sums")
    with pytest.raises(MessageError, match="cannot read"):
        Aggregator.load(tmp_path / "missing")


def test_estimates_undo_the_constants():
    G, A1, A2 = np.random.default_rng(0).standard_normal((200, 4)), 0.3, -0.2
    moments = Moments(4, 5).add(G)
    assert Moments(4, 5).add(G[:3]).add(G[3:7]).count.tolist() == [2, 2, 1, 1, 1]  # folds go round over all of them
    estimate = moments.estimate(A1, A2)
    np.testing.assert_allclose(estimate.first, G.mean(axis=0) / A1)
    np.testing.assert_allclose(estimate.second, (G.T @ G / 200 - np.eye(4)) / A2)
    assert estimate.v1 == pytest.approx(1 / A1**2)
    assert estimate.v2 == pytest.approx(2 / A2**2)
    rest, held = moments.estimate(A1, A2, without=2), moments.estimate(A1, A2, only=2)
    np.testing.assert_allclose(held.first, G[2::5].mean(axis=0) / A1)
    np.testing.assert_allclose((rest.n * rest.second + held.n * held.second) / 200, estimate.second, atol=1e-12)


def signed(header, body=b""):
    content = b"SVMOMENT" + len(header).to_bytes(4, "little") + header + body
    return content + hashlib.sha256(content).digest()


@pytest.mark.parametrize(
    ("header", "body", "why"),
    [
        (b"{}", b"", "version"),
        (b"[1]", b"", "cannot be read"),
        (b"\xff", b"", "cannot be read"),
        (b'{"version":2}', b"", "version 2"),
        (b'{"version":1,"d":1,"n_folds":1,"identity":"","count":[1]}', bytes(8), "wrong size"),
        (b'{"version":1,"d":1,"n_folds":1,"identity":"","count":[1]}', bytes(17), "cannot be read"),
        (b'{"version":1,"d":1,"n_folds":1,"identity":"","count":[-1]}', bytes(16), "count"),
        (b'{"version":1,"d":1,"n_folds":1,"identity":"","count":[1,2]}', bytes(16), "other folds"),
        (b'{"version":1,"d":1,"n_folds":1,"identity":"","count":[1]}', np.array([1, np.nan]).tobytes(), "not finite"),
        (b'{"version":1,"d":-1,"n_folds":1,"identity":"","count":[1]}', b"", "d must be"),
        (b'{"version":1,"d":300000,"n_folds":1,"identity":"","count":[1]}', b"", "wrong size"),
    ],
)
def test_bytes_with_a_right_checksum_are_still_checked(header, body, why):
    with pytest.raises(MessageError, match=why):
        Moments.from_bytes(signed(header, body))


def test_sums_of_another_kind_are_refused():
    for other in (Moments(3), Moments(4, 5, b"other"), Moments(4, 2)):
        with pytest.raises(ParameterError, match=r"different protocols|n_folds"):
            Moments(4).merge(other)
    for first, second, v1, why in (
        (np.zeros(2), np.zeros((2, 3)), 0.0, "shapes"),
        (np.array([0, np.inf]), np.zeros((2, 2)), 0.0, "finite"),
        (np.zeros(2), np.zeros((2, 2)), -1.0, "v1"),
    ):
        with pytest.raises(ParameterError, match=why):
            MomentEstimate(1, first, second, v1, 0.0)


def test_health_of_honest_devices_and_of_forgers():
    rng = np.random.default_rng(3)
    aggregator, X, s = learned(20_000)
    for _ in range(5):
        assert abs(aggregator.health().trace_z) < 4
    scores = []
    Z = PROTOCOL.encode_many(X) * s[:, None]
    for _ in range(60):
        some = Aggregator(PROTOCOL)
        some.moments.add(simulate(PROTOCOL, Z[rng.integers(0, len(Z), 500)], rng))
        scores.append(some.health().trace_z)
    assert np.std(scores) == pytest.approx(1.0, abs=0.3)
    assert math.isnan(aggregator.health().index_p)
    assert aggregator.health().is_plausible
    random = Aggregator(PROTOCOL)  # indices that say nothing of a person: the trace is 0, not 1
    random.add(honest(3000))
    assert not random.health().is_plausible
    assert random.health().index_p > 1e-4
    same_index = Aggregator(PROTOCOL)
    same_index.add([report[:20] + b"\1\0" for report in honest(500)])
    assert same_index.health().index_p < 1e-6
    with pytest.raises(ParameterError, match="no reports"):
        Aggregator(PROTOCOL).health()


def test_honest_indices_are_uniform():
    """Also for one and the same person: candidates are exchangeable over random seeds."""
    protocol = Protocol(epsilon=4.0, n_features=2, K=8, m=2, b=0.5, completion="slack")
    device = Randomizer(protocol)
    state = np.random.default_rng(5)
    device._random = lambda size: state.bytes(size)
    aggregator = Aggregator(protocol)
    aggregator.add([device.report([0.3, -0.2], 1) for _ in range(3000)])
    assert aggregator.health().index_p > 1e-3
    assert abs(aggregator.health().trace_z) < 4


def test_a_model_of_two_classes():
    aggregator, X, s = learned()
    model = aggregator.fit()
    assert model.score(X, s.astype(int)) > 0.9
    assert model.predict(X).tolist() == np.where(model.decision_function(X) > 0, 1, -1).tolist()
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_ + model.intercept_, rtol=1e-10)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert ((p >= 0) & (p <= 1)).all()
    assert model.weights[-1] == 0.0  # the slack is not a feature
    assert model.quality_.explained > 0.3
    assert "4000 reports" in repr(model)
    with pytest.raises(DataError, match="label"):
        model.score(X, s[:-1])


def test_the_score_of_a_normalised_row_is_divided_by_its_norm():
    protocol = Protocol(epsilon=4.0, features=[NumericFeature("a", 0, 1), NumericFeature("b", 0, 4)])
    aggregator = Aggregator(protocol)
    records = [{"a": a, "b": b} for a, b in np.random.default_rng(0).uniform(0, 1, (50, 2))]
    aggregator.moments.add(simulate(protocol, protocol.encode_many(records), np.random.default_rng(1)))
    model = aggregator.fit()
    rows = np.array([protocol.row(record) for record in records])
    norms = np.sqrt(((rows / protocol.scale) ** 2).sum(axis=1) + protocol.intercept**2)
    np.testing.assert_allclose(model.decision_function(records), (rows @ model.coef_ + model.intercept_) / norms)


def test_a_regression_predicts_in_the_unit_of_the_label():
    rng = np.random.default_rng(2)
    X = rng.uniform(-0.6, 0.6, (20_000, 2))
    y = 15 + 6 * X[:, 0] - 2 * X[:, 1]
    scaled = (y - 15) / 5
    s = np.where(rng.random(len(y)) < (1 + scaled) / 2, 1.0, -1.0)
    aggregator = Aggregator(REGRESSION)
    aggregator.moments.add(simulate(REGRESSION, REGRESSION.encode_many(X) * s[:, None], rng))
    model = aggregator.fit()
    np.testing.assert_allclose(model.coef_, [6, -2], atol=0.8)
    assert model.intercept_ + model.label_offset_ == pytest.approx(15.0, abs=0.3)
    inside = X @ model.coef_ + model.intercept_ + model.label_offset_
    np.testing.assert_allclose(model.predict(X), np.clip(inside, 10, 20))
    assert model.score(X, y) > 0.95
    assert model.predict(np.array([[1.0, 0.0]]) * 50).item() <= 20.0
    with pytest.raises(ParameterError, match="probabilities"):
        model.predict_proba(X)


def test_the_receipt():
    aggregator, *_ = learned()
    guarantee = aggregator.fit().guarantee_
    assert (guarantee.epsilon, guarantee.delta, guarantee.adjacency) == (4.0, 0.0, "replace-one")
    assert guarantee.is_private
    assert guarantee.epsilon_at(0.0) == 4.0
    assert type(guarantee).from_json(guarantee.to_json()) == guarantee
    assert "central" not in " ".join(guarantee.parameters)
    shuffled = Protocol(epsilon=1.0, n_features=3, completion="slack")
    many = Aggregator(shuffled)
    many.moments.count[:], many.moments.second[:] = 200_000, np.eye(5) * 200_000
    receipt = many.fit(shuffled=True, delta=1e-7).guarantee_
    assert receipt.epsilon == 1.0  # the guarantee stays the local one
    assert 0.0 < receipt.parameters["central epsilon, if a trusted shuffler mixed the reports"] < 0.2
    assert any("trusted shuffler" in line for line in receipt.assumptions)


def test_degree_0_where_there_is_no_second_moment():
    first = Protocol(epsilon=1.0, n_features=3, degree=0, completion="slack")
    few = Aggregator(first)
    few.moments.add(simulate(first, np.eye(5), np.random.default_rng(0)))
    assert few.fit().degree == 0
    with pytest.raises(ParameterError, match="degree must be 0"):
        few.fit(degree=1)
    assert few.fit(public_rows=np.eye(3)).degree == 1


def test_public_rows_replace_the_second_moment():
    aggregator, X, s = learned(1000)
    model = aggregator.fit(public_rows=X)
    assert model.score(X, s.astype(int)) > 0.9
    assert any("public" in line for line in model.guarantee_.assumptions)
    assert model.weights.tolist() != aggregator.fit().weights.tolist()


REFUSED = [
    *((lambda reports=reports: Aggregator(PROTOCOL).add(reports), "bytes")
      for reports in ("text", 3, None, [1], ["text"])),
    (lambda: Aggregator("text"), "protocol"), (lambda: Aggregator(PROTOCOL, 0), "n_folds"),
    (lambda: Aggregator(PROTOCOL, n_threads=0), "n_threads"), (lambda: Aggregator(PROTOCOL).fit(), "no reports"),
    (lambda: Aggregator(PROTOCOL).merge(Aggregator(Protocol(epsilon=3.0, n_features=3, completion="slack"))),
     "different protocols"),
    (lambda: Aggregator(PROTOCOL).merge(Aggregator(PROTOCOL, 3)), "n_folds"),
    (lambda: Aggregator(PROTOCOL).merge("text"), "must be an Aggregator"),
    *((lambda options=options: learned()[0].fit(**options), why) for options, why in (
        ({"degree": 2}, "degree"), ({"degree": 3}, "<= 1; got 3. Or give 'auto'"), ({"degree": 1.0}, "degree"),
        ({"degree": "high"}, "degree"), ({"alpha": -1.0}, "alpha"), ({"alpha": "best"}, "alpha must be a finite"),
        ({"alpha": 1.0, "degree": 0}, "alpha"), ({"shuffled": True}, "delta"),
        ({"shuffled": True, "delta": 1.0}, "delta"), ({"shuffled": 1}, "shuffled"), ({"delta": 1e-6}, "shuffled=True"),
        ({"public_rows": np.zeros((0, 3))}, "public_rows"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("call", "why"), REFUSED, ids=lambda one: one if isinstance(one, str) else "")
def test_what_cannot_be_asked_is_refused(call, why):
    with pytest.raises(ParameterError, match=why):
        call()


def test_a_model_is_stored_and_read_back(tmp_path):
    aggregator, X, _ = learned()
    for model in (aggregator.fit(), aggregator.fit(degree=0), learned(n_folds=1)[0].fit()):
        model.save(tmp_path / "model.json")
        again = LocalModel.load(tmp_path / "model.json")
        np.testing.assert_array_equal(model.decision_function(X), again.decision_function(X))
        assert again.to_json() == model.to_json()
        assert (again.guarantee_, again.quality_) == (model.guarantee_, model.quality_)


def test_bad_model_files_are_refused(tmp_path):
    good = json.loads(learned()[0].fit().to_json())
    for changes in (
        {"format": "x"},
        {"version": 2},
        {"weights": [1]},
        {"weights": None},
        {"quality": 3},
        {"protocol": 1},
    ):
        (tmp_path / "model.json").write_text(json.dumps(good | changes))
        with pytest.raises(ModelFormatError, match=r"model.json: this is no local model"):
            LocalModel.load(tmp_path / "model.json")
    with pytest.raises(ModelFormatError, match="cannot read"):
        LocalModel.load(tmp_path / "missing")


def test_the_layout_follows_the_protocol():
    assert layout_of(PROTOCOL).n_used == 4
    assert layout_of(PROTOCOL).free == 3
    assert layout_of(Protocol(epsilon=1.0, n_features=3, intercept=0.0, completion="slack")).free is None
    normal = layout_of(Protocol(epsilon=1.0, n_features=3, completion="normalise"))
    assert (normal.n_used, normal.free) == (4, "top")
    assert REPORT_BYTES == 22


def test_a_regression_is_fitted_with_caution_and_knows_the_mean_at_least():
    rng = np.random.default_rng(3)
    aggregator = Aggregator(REGRESSION)
    X = rng.uniform(-0.6, 0.6, (300, 2))
    aggregator.moments.add(simulate(REGRESSION, -REGRESSION.encode_many(X), rng))  # all labels at the lower bound
    estimate = aggregator.moments.estimate(*aggregator.constants.A[:2])
    folds = folds_of(aggregator.moments, *aggregator.constants.A[:2])
    careful, careless = (
        ridge_by_folds(estimate, folds, None, layout_of(REGRESSION), cautious=cautious) for cautious in (True, False)
    )
    np.testing.assert_array_equal(aggregator.fit().weights, careful)
    assert np.abs(careful - careless).max() > 1e-6
    mean = aggregator.fit(degree=0)
    assert not mean.coef_.any()
    expected = 15 + 5 * estimate.first[2] / 0.3
    np.testing.assert_allclose(mean.predict(X), np.clip(expected, 10, 20))
    few = Protocol.create(n_expected=20, n_features=9, epsilon=1.0, task="regression", label_bounds=(0, 1))
    assert (few.degree, few.completion) == (1, "slack")
