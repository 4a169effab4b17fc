"""Bernstein reports: protocol, wire format, device, server, receipt."""

import hashlib
import json
import math
import struct
import subprocess
import sys
import warnings

import numpy as np
import pytest

from sottovoce.exceptions import DataError, ParameterError, PrivacyWarning, SottovoceWarning
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.published.bernstein import (
    BernsteinAggregator,
    BernsteinProtocol,
    BernsteinRandomizer,
    GeneralLoss,
    randomizer,
)
from sottovoce.published.bernstein.general_loss import GENERAL_LOSSES
from sottovoce.published.bernstein.protocol import LOSSES, RESIDUALS
from sottovoce.published.bernstein.residual_loss import RESIDUAL_LOSSES, huber_residual
from sottovoce.published.bernstein.sigm import gradients


def protocol(**changed):
    return BernsteinProtocol(**{"loss": "hinge", "n_features": 3, "epsilon": 64.0, "delta": 1e-6, **changed})


def seeded(seed):
    return np.random.default_rng(seed).bytes


def people(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(X[:, 0] + 0.2 * rng.normal(size=n) > 0, 1.0, -1.0)


def decoded(report, public):
    """Read a report as the documentation has it, without the library's code."""
    magic, protocol_id = struct.unpack_from("<4s8s", report)
    p = public.degree
    rows = struct.unpack_from(f"<{(p * (p + 1) + 1) * (public.n_features + 1)}i", report, 12)
    return magic, protocol_id, np.array(rows).reshape(-1, public.n_features + 1) * public.tick


def test_wire_format():
    public = protocol(degree=2)
    report = BernsteinRandomizer(public).report([0.3, 0.0, -0.2], -1)
    magic, protocol_id, rows = decoded(report, public)
    assert magic == b"LDPB"
    assert protocol_id == hashlib.sha256(public.to_json().encode()).digest()[:8]
    assert rows.shape == (7, 4)
    assert len(report) == public.report_size == 12 + 4 * 28
    assert np.abs(rows - [0.3, 0.0, -0.2, -1.0]).max() < 10 * public.other_std


def test_noise_of_each_copy():
    """Printed noise of degree 2: copy 0 has s_0, the others s_1; every column of every copy is on its own."""
    with pytest.warns(PrivacyWarning):
        public = protocol(degree=2, noise="printed", n_features=1)
    n = 20000
    X, y = np.full((n, 1), 0.5), np.ones(n)
    rows = np.array([decoded(r, public)[2] for r in BernsteinRandomizer(public, random_bytes=seeded(1)).reports(X, y)])
    flat = (rows - [0.5, 1.0]).reshape(n, -1)
    stds = np.repeat([public.first_std] + [public.other_std] * 6, 2)
    assert public.other_std == pytest.approx(3.0 * public.first_std)
    np.testing.assert_allclose(flat.std(axis=0), stds, rtol=4.0 / math.sqrt(2 * n))
    np.testing.assert_array_less(np.abs(flat.mean(axis=0)), 4.0 * stds / math.sqrt(n))
    correlations = np.corrcoef(flat.T) - np.eye(14)
    assert np.abs(correlations).max() < 4.5 / math.sqrt(n)


def test_normals_cover_the_tails():
    """All-zero and all-one bits are the ends: no infinity, 9.2 standard deviations at most; the middle is exact."""
    ends = randomizer.standard_normals(4, lambda size: struct.pack("<4Q", 0, 1, 2**64 - 2, 2**64 - 1))
    np.testing.assert_allclose(np.abs(ends[:2]), 9.155, atol=0.01)
    assert ends[0] < 0 < ends[1]
    assert np.abs(ends[2:]).max() < 1e-15
    from scipy.stats import kstest

    assert kstest(randomizer.standard_normals(200_000, seeded(3)), "norm").pvalue > 1e-4


def test_norm_is_at_most_one_in_whole_ticks(monkeypatch):
    """Whatever the record, also beyond data_norm: the ticks of x have norm at most 1, exactly, and y is one."""
    monkeypatch.setattr(randomizer, "standard_normals", lambda size, random_bytes: np.zeros(size))
    rng = np.random.default_rng(0)
    for d, scale in ((1, 5.0), (2, 1e-3), (40, 1e300), (40, 1.0)):
        public = protocol(n_features=d, data_norm=2.0)
        X = scale * rng.normal(size=(200, d))
        X[:50] *= 2.0 / np.maximum(np.linalg.norm(X[:50] / scale, axis=1, keepdims=True) * scale, 1e-300)
        X[199] = 0.0
        one = round(1.0 / public.tick)
        for x, report in zip(X, BernsteinRandomizer(public).reports(X, np.ones(200)), strict=True):
            rows = np.rint(decoded(report, public)[2] / public.tick).astype(object)
            assert (rows == rows[0]).all()
            assert sum(int(k) ** 2 for k in rows[0, :-1]) <= one**2
            assert rows[0, -1] == one
            wanted = x / max(2.0, float(np.linalg.norm(x / scale) * scale))
            np.testing.assert_allclose(rows[0, :-1].astype(float) * public.tick, wanted, atol=2 * public.tick)


def test_norm_is_at_most_one_where_rounding_hides_it(monkeypatch):
    """|(1, 2^-29)| is 1 in double precision and more than 1 in truth: ticks of 2^-29 show it."""
    monkeypatch.setattr(randomizer, "standard_normals", lambda size, random_bytes: np.zeros(size))
    public = protocol(n_features=2, epsilon=1e4, first_std=0.125, other_std=0.125, tick=2.0**-29)
    rows = np.rint(decoded(BernsteinRandomizer(public).report([1.0, 2.0**-29], 1), public)[2] * 2.0**29)
    np.testing.assert_array_equal(rows[0], [2**29 - 1, 0, 2**29])


@pytest.mark.parametrize(
    ("x", "y", "match"),
    [
        ([0.1, 0.2], 1, "3 features"),
        ([0.1, math.nan, 0.2], 1, "not finite"),
        ([0.1, math.inf, 0.2], 1, "not finite"),
        ([0.1, 0.2, 0.3], 0, "-1 or 1"),
        ([0.1, 0.2, 0.3], math.nan, "-1 or 1"),
        ([0.1, 0.2, 0.3], [1, 1], "one label"),
    ],
)
def test_records_that_are_refused_before_any_draw(x, y, match, noise_is_forbidden):
    with pytest.raises(DataError, match=match):
        BernsteinRandomizer(protocol()).report(x, y)


def test_the_device_loads_numpy_and_nothing_else():
    """Reading a protocol, checking its noise and making a report: no scipy, no numba, no pandas."""
    program = """
import sys
from sottovoce.published.bernstein import BernsteinProtocol, BernsteinRandomizer
protocol = BernsteinProtocol.from_json(sys.argv[1])
assert len(BernsteinRandomizer(protocol).report([0.1, 0.2, 0.3], 1)) == protocol.report_size
others = {name.split(".")[0] for name in sys.modules} - {*sys.stdlib_module_names, "sottovoce", "__main__"}
print(",".join(sorted(others)))
"""
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}", protocol().to_json()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "numpy"


def test_a_device_may_set_a_limit_of_its_own():
    """It is compared with the true cost: printed noise at p = 1 costs 4.47 where it claims 4."""
    with pytest.warns(PrivacyWarning):
        printed = protocol(noise="printed", epsilon=4.0)
    with pytest.raises(ParameterError, match=r"more than max_epsilon=4\.4 .* no report is made"):
        BernsteinRandomizer(printed, max_epsilon=4.4)
    BernsteinRandomizer(printed, max_epsilon=4.5)
    BernsteinRandomizer(protocol(epsilon=4.0), max_epsilon=4.0)
    with pytest.raises(ParameterError, match="max_epsilon must be"):
        BernsteinRandomizer(printed, max_epsilon=math.nan)


def test_the_named_losses():
    assert sorted(LOSSES) == sorted(["hinge", *GENERAL_LOSSES])
    assert sorted(RESIDUALS) == sorted(RESIDUAL_LOSSES)


def test_system_randomness_by_default():
    public = protocol()
    first, second = (BernsteinRandomizer(public).report([0.1, 0.2, 0.3], 1) for _ in range(2))
    assert first != second


# ----------------------------------------------------------------------------------------------------------- protocol


@pytest.mark.parametrize("noise", ["tight", "basic", "printed"])
def test_protocol_is_read_as_it_was_written(noise):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        public = protocol(noise=noise, degree=2, epsilon=4.0, loss="logistic")
        again = BernsteinProtocol.from_json(public.to_json())
    assert again == public
    assert again.id == public.id
    assert "order" not in json.loads(public.to_json())  # a protocol from before there were orders is read, by its id
    assert json.loads(public.to_json())["mechanism"] == "bernstein"


def test_every_parameter_changes_the_id():
    public = protocol()
    changes = {"loss": "logistic", "n_features": 4, "epsilon": 63.0, "delta": 1e-5, "degree": 2, "beta": 0.2,
               "noise": "basic", "data_norm": 2.0, "order": 2}  # fmt: skip
    ids = [protocol(**{name: value}).id for name, value in changes.items()]
    assert len({public.id, *ids}) == 1 + len(changes)


def edited(**changed):
    content = json.loads(protocol().to_json())
    kept = {k: v for k, v in (content | changed).items() if v is not None}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))


def test_a_protocol_with_less_noise_than_it_promises_is_refused():
    """A device is not taken in by a server that writes other standard deviations."""
    content = json.loads(protocol().to_json())
    for name in ("first_std", "other_std"):
        with pytest.raises(ParameterError, match="do not take part"):
            BernsteinProtocol.from_json(edited(**{name: 0.7 * content[name]}))
    more = BernsteinProtocol.from_json(edited(first_std=2.0 * content["first_std"]))
    assert more.true_epsilon < 64.0
    with pytest.warns(PrivacyWarning):
        printed = json.loads(protocol(noise="printed").to_json())
    with pytest.raises(ParameterError, match="must be those printed"):
        BernsteinProtocol.from_json(edited(**printed | {"first_std": 0.7 * printed["first_std"]}))


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("{", ParameterError, "not JSON"),
        ("[]", ParameterError, "the text is not a protocol"),
        (edited(version=2), ParameterError, "has version 2"),
        (edited(mechanism="cap"), ParameterError, "mechanism must be one of 'bernstein'; got 'cap'"),
        (edited(beta=None), ParameterError, r"lacks \['beta'\]"),
        (edited(order=1), ParameterError, "not canonical"),
        (edited(order=0), ParameterError, "order must be"),
        (edited(extra=1), ParameterError, r"unknown fields \['extra'\]"),
        (edited(tick=0.3), ParameterError, "tick must be a power of two"),
        (edited(tick=0.5), ParameterError, "tick must be a power of two in"),
        (edited(tick=2.0**-40), ParameterError, "tick must be a power of two in"),
        (edited(first_std="a"), ParameterError, "first_std"),
        (edited(first_std=math.nan), ParameterError, "first_std"),
        (edited().replace(":null", ":1").replace(",", ", "), ParameterError, "not canonical"),
    ],
)
def test_protocols_that_are_refused(text, error, match):
    with pytest.raises(error, match=match):
        BernsteinProtocol.from_json(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [("loss", "hing"), ("n_features", 0), ("epsilon", math.inf), ("epsilon", 0.0), ("delta", 0.0), ("delta", math.nan),
     ("degree", 0), ("degree", 1.0), ("degree", 101), ("beta", 0.0), ("noise", "least"), ("data_norm", -1.0),
     ("order", 0), ("order", 21), ("first_std", 1.0)],
)  # fmt: skip
def test_bad_parameters(name, value):
    with pytest.raises(ParameterError, match="tick|other_std" if name == "first_std" else name):
        protocol(**{name: value})


def test_budgets_too_small_for_the_format():
    with pytest.raises(ParameterError, match=r"first_std must be .*Raise epsilon"):
        protocol(epsilon=1e-6)
    with pytest.raises(ParameterError, match="lower degree or n_features"):
        protocol(degree=100, n_features=10_000)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("degree", [1, 10])
def test_honest_numbers_fit_in_32_bits(epsilon, degree, monkeypatch):
    for sign in (1.0, -1.0):
        monkeypatch.setattr(randomizer, "standard_normals", lambda n, _, sign=sign: np.full(n, 9.2 * sign))
        public = protocol(epsilon=epsilon, degree=degree)
        report = BernsteinRandomizer(public).report([sign, 0.0, 0.0], sign)
        rows = decoded(report, public)[2]
        assert np.abs(rows[0, 0] - sign * (1.0 + 9.2 * public.first_std)) <= public.tick
        assert BernsteinAggregator(public).add([report]) == 1


def test_printed_noise_warns_with_the_true_epsilon():
    with pytest.warns(PrivacyWarning, match="claims epsilon=4 at delta=1e-06, one report really costs epsilon=4.47"):
        protocol(noise="printed", epsilon=4.0)


# ------------------------------------------------------------------------------------------------------------- server


def test_reports_that_are_refused():
    public = protocol()
    X, y = people(5)
    reports = BernsteinRandomizer(public, random_bytes=seeded(0)).reports(X, y)
    far = reports[1][:12] + struct.pack("<i", 2**31 - 1) + reports[1][16:]
    least = reports[1][:12] + struct.pack("<i", -(2**31)) + reports[1][16:]
    other = BernsteinRandomizer(protocol(beta=0.2)).report(X[0], 1)
    server = BernsteinAggregator(public)
    wrong = [reports[0][:-1], b"", b"LDP1" + reports[0][4:], other, far, least, reports[0], reports[2]]
    assert server.add([*reports[:3], *wrong]) == 3
    assert server.n_reports == 3
    assert server.rejected == {
        "length": 2, "not a report": 1, "other protocol": 1, "impossible number": 2, "repeated": 2
    }  # fmt: skip
    assert server.add(reports) == 2  # a repeated report is known in later calls too
    assert server.add([]) == 0


def test_merging_is_adding():
    public = protocol()
    X, y = people(40)
    reports = BernsteinRandomizer(public, random_bytes=seeded(0)).reports(X, y)
    whole, first, second = (BernsteinAggregator(public) for _ in range(3))
    whole.add(reports)
    first.add(reports[:25])
    second.add([*reports[20:], b"x"])
    first.merge(second)
    assert first.n_reports == 40
    assert first.rejected == {"repeated": 5, "length": 1}
    np.testing.assert_array_equal(first.fit(random_state=1).coef_, whole.fit(random_state=1).coef_)
    with pytest.raises(ParameterError, match="same protocol"):
        first.merge(BernsteinAggregator(protocol(beta=0.2)))


def test_fit_without_reports():
    with pytest.raises(DataError, match="no reports"):
        BernsteinAggregator(protocol()).fit()


def test_a_model_learns_and_predicts_in_the_unit_of_the_features():
    X, y = people(20_000)
    models = []
    for scale in (1.0, 4.0):
        public = protocol(epsilon=200.0, data_norm=scale)
        server = BernsteinAggregator(public)
        server.add(BernsteinRandomizer(public, random_bytes=seeded(2)).reports(scale * X, y))
        models.append(server.fit(random_state=3))
        assert (models[-1].predict(scale * X) == y).mean() > 0.9
        np.testing.assert_allclose(models[-1].decision_function(scale * X), scale * X @ models[-1].coef_)
    np.testing.assert_allclose(models[1].coef_, models[0].coef_ / 4.0, rtol=1e-9)
    with pytest.raises(DataError, match="3 columns"):
        models[0].predict(X[:, :2])


def test_the_same_reports_serve_other_losses():
    public = protocol(epsilon=200.0)
    X, y = people(5000)
    server = BernsteinAggregator(public)
    server.add(BernsteinRandomizer(public, random_bytes=seeded(2)).reports(X, y))
    own = server.fit(random_state=0).coef_
    logistic = server.fit(loss="logistic", random_state=0).coef_
    bent = GeneralLoss("bent", lambda u: np.abs(u - 0.9), lambda u: np.where(u < 0.9, -1.0, 1.0))
    custom = server.fit(loss=bent, random_state=0).coef_
    assert np.linalg.norm(own - logistic) > 0.01
    assert np.linalg.norm(custom - logistic) > 0.01
    np.testing.assert_array_equal(server.fit(loss="hinge", random_state=0).coef_, own)
    with pytest.raises(ParameterError, match="loss must be one of"):
        server.fit(loss="huber")


def test_a_protocol_of_a_higher_order():
    public = protocol(degree=3, order=4, epsilon=200.0)
    assert BernsteinProtocol.from_json(public.to_json()) == public
    assert public.oracle.order == 4
    X, y = people(3000)
    server = BernsteinAggregator(public)
    server.add(BernsteinRandomizer(public, random_bytes=seeded(2)).reports(X, y))
    own = server.fit(random_state=0)
    assert own.guarantee_.parameters["order"] == 4
    np.testing.assert_array_equal(server.fit(order=4, random_state=0).coef_, own.coef_)
    assert np.linalg.norm(server.fit(order=1, random_state=0).coef_ - own.coef_) > 0.01
    with pytest.raises(ParameterError, match="order must be"):
        server.fit(order=0)


def numbers_of_people(n, seed=0):
    """Labels near a line, one in eight of them at the upper end."""
    rng = np.random.default_rng(seed)
    X, _ = people(n, seed=seed)
    y = 0.6 * X[:, 0] - 0.2 * X[:, 1] + 0.02 * rng.normal(size=n)
    y[rng.random(n) < 0.125] = 1.0
    return X, y


def test_numeric_labels_within_their_bounds(monkeypatch):
    monkeypatch.setattr(randomizer, "standard_normals", lambda size, random_bytes: np.zeros(size))
    public = protocol(loss="huber residual")
    device = BernsteinRandomizer(public)
    labels = [decoded(device.report([0.1, 0.0, 0.0], y), public)[2][:, -1] for y in (0.3, -7.0, 1e300, -1.0 / 3.0)]
    np.testing.assert_allclose([column[0] for column in labels], [0.3, -1.0, 1.0, -1.0 / 3.0], atol=public.tick)
    assert np.abs(labels).max() <= 1.0
    for y in (math.nan, math.inf):
        with pytest.raises(DataError, match="a label is not finite"):
            device.report([0.1, 0.0, 0.0], y)


def test_outliers_move_huber_less_than_least_squares():
    """A budget without noise to speak of, degree 7: with outliers at one end, the robust losses are nearer the line."""
    X, y = numbers_of_people(5000)
    public = protocol(loss="huber residual", epsilon=20_000.0, degree=7, beta=0.1)
    server = BernsteinAggregator(public)
    server.add(BernsteinRandomizer(public, random_bytes=seeded(4)).reports(X, y))
    true = np.array([0.6, -0.2, 0.0])
    errors = {}
    for loss in (None, "absolute residual", huber_residual(2.0)):
        model = server.fit(loss=loss, random_state=0)
        errors[loss if isinstance(loss, str | None) else "squares"] = np.linalg.norm(model.coef_ - true)
        assert model.regression_
        assert np.abs(model.predict(4.0 * X)).max() == 1.0
    assert errors[None] < 0.85 * errors["squares"]
    assert errors["absolute residual"] < 0.85 * errors["squares"]


def test_losses_that_do_not_go_with_the_labels():
    X, y = people(20)
    for public, loss, name in (
        (protocol(), huber_residual(0.5), "the loss 'huber residual' does not go with"),
        (protocol(loss="absolute residual"), GENERAL_LOSSES["logistic"], "the loss 'logistic' does not go with"),
        (protocol(loss="absolute residual"), "hinge", "loss must be one of 'absolute residual', 'huber residual'"),
        (protocol(), "huber residual", "loss must be one of 'hinge'"),
    ):
        server = BernsteinAggregator(public)
        server.add(BernsteinRandomizer(public).reports(X, y))
        with pytest.raises(ParameterError, match=name):
            server.fit(loss=loss)


def test_a_loss_that_asks_for_nothing_is_told_and_divides_by_nothing():
    public = protocol(epsilon=1.0)
    X, y = people(50)
    server = BernsteinAggregator(public)
    server.add(BernsteinRandomizer(public, random_bytes=seeded(0)).reports(X, y))
    with pytest.warns(SottovoceWarning, match="no model is better than w = 0"):
        server.fit(loss=GeneralLoss("absolute", np.abs, np.sign), random_state=0)


def test_a_warning_when_the_noise_swamps_the_reports():
    public = protocol(epsilon=1.0)
    X, y = people(50)
    server = BernsteinAggregator(public)
    server.add(BernsteinRandomizer(public, random_bytes=seeded(0)).reports(X, y))
    with pytest.warns(SottovoceWarning, match="the noise swamps 50 reports: .* not less than the 0.5"):
        model = server.fit(random_state=0)
    assert model.noise_error_ > 0.5
    with pytest.warns(SottovoceWarning, match="not less than the 0.38"):
        server.fit(loss="logistic")


def test_hostile_numbers_cannot_leave_the_ball():
    public = protocol(epsilon=200.0)
    edge = int(np.ceil((1 + 9.2 * public.first_std) / public.tick))
    body = [struct.pack("<12i", *(edge if i % 2 else -edge for i in range(11)), k) for k in range(300)]
    server = BernsteinAggregator(public)
    assert server.add([struct.pack("<4s8s", b"LDPB", public.id) + part for part in body]) == 300
    assert np.linalg.norm(server.fit(random_state=0).coef_) <= 1.0 + 1e-12


# ------------------------------------------------------------------------------------------------------------ receipt


@pytest.mark.parametrize(
    ("noise", "degree", "epsilon", "real"),
    [("tight", 1, 4.0, 4.0), ("printed", 1, 4.0, 4.4702), ("printed", 2, 1.0, 0.71059), ("basic", 2, 1.0, 0.1742)],
)
def test_the_receipt_says_what_the_noise_gives(noise, degree, epsilon, real):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SottovoceWarning)
        public = protocol(noise=noise, degree=degree, epsilon=epsilon)
        server = BernsteinAggregator(public)
        server.add([BernsteinRandomizer(public).report([0.1, 0.2, 0.3], 1)])
        receipt = server.fit().guarantee_
    assert receipt.epsilon == pytest.approx(real, abs=1e-4)
    assert receipt.delta == 1e-6
    assert receipt.adjacency == "replace-one"
    assert receipt.is_private
    assert receipt.epsilon_at(1e-6) <= receipt.epsilon
    assert receipt.parameters["claimed epsilon"] == epsilon
    # the event is the noise that the device adds
    shift = 8 / public.first_std**2 + 8 * degree * (degree + 1) / public.other_std**2
    assert isinstance(receipt.event, GaussianEvent)
    assert receipt.event.noise_multiplier == pytest.approx(1 / math.sqrt(shift))
    assert Guarantee.from_json(receipt.to_json()) == receipt
    said = [text for text in receipt.not_covered if "The paper claims" in text]
    assert bool(said) == (noise == "printed")
    if said:
        assert f"claims epsilon = {epsilon:g}" in said[0]
        assert f"really costs {real:.4f}"[:-1] in said[0]
        assert ("more than claimed" in said[0]) == (real > epsilon)


def test_gradients_of_a_report_by_hand():
    """Degree 1: copies 1 and 2 make the terms c_0 (1 - v_1) and c_1 v_2, copy 0 the direction."""
    public = protocol(n_features=2)
    rows = np.array([[[3, 1, -2], [5, 2, 4], [-1, 6, 7]]], dtype=np.int32)
    w = np.array([0.25, -0.5])
    c = public.oracle.coefficients
    v = [0.5 + 0.5 * 16.0 * y * (w @ x) for x, y in ((np.array([5.0, 2.0]), 4), (np.array([-1.0, 6.0]), 7))]
    wanted = (c[0] * (1.0 - v[0]) + c[1] * v[1]) * (-2 * 4.0) * (np.array([3.0, 1.0]) * 4.0)
    np.testing.assert_allclose(gradients(rows, 4.0, public.oracle, w, np.array([0.5]))[0], wanted)


def test_gradients_of_a_residual_by_hand():
    public = protocol(n_features=2, loss="huber residual")
    rows = np.array([[[3, 1, -2], [5, 2, 4], [-1, 6, 7]]], dtype=np.int32)
    w = np.array([0.25, -0.5])
    c = public.oracle.coefficients
    assert c == pytest.approx([-1.0, 1.0])
    v = [0.5 + 0.25 * 4.0 * (w @ x - y) for x, y in ((np.array([5.0, 2.0]), 4), (np.array([-1.0, 6.0]), 7))]
    wanted = (c[0] * (1.0 - v[0]) + c[1] * v[1]) * np.array([3.0, 1.0]) * 4.0
    np.testing.assert_allclose(gradients(rows, 4.0, public.oracle, w, np.array([0.5]))[0], wanted)
