"""Audits of what parties release to each other, from what one of them, or the coordinator, sees of whole trainings."""

from functools import partial

import numpy as np

from sottovoce.central.parallel import Team
from sottovoce.papers.admm.noisy import NoisyBlock, score_release
from sottovoce.papers.frank_wolfe.noise import ColumnRelease, Sketch
from sottovoce.privacy.calibration import bounded_range, gaussian_mu
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse
from sottovoce.randomness import Streams
from sottovoce.vertical import Party, VerticalLogisticRegression, VerticalRidge
from sottovoce.vertical.coordinator import local_models
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.requests.frank_wolfe import TrainOnBall, choose_alone
from sottovoce.vertical.requests.local_models import TrainOnLabels
from support.audits.audit import DELTA, SLOW, Answers, Audit, Scores, scale_choices
from support.audits.transcript import Transcript, ratios
from support.crossing import recorded
from support.noise import stream

# --- local models -----------------------------------------------------------------------------------------------------

ONE, OTHER = np.eye(2)


def estimator(kind, seed, **changed):
    parameters = {"delta": DELTA, "alpha": 0.1, "random_state": seed, **changed}
    if kind == "ridge":
        return VerticalRidge(label_bounds=(-1.0, 1.0), **parameters)
    return VerticalLogisticRegression(classes=[-1, 1], **parameters)


def released_labels(factor, patch):
    """Another party sees the labels. Each of 200 people in each of 40 fits is a run, with a coin of their own."""
    threshold = RandomizedResponse.__dict__["_threshold"].func
    patch.setattr(RandomizedResponse, "_threshold", property(lambda one: int(factor * threshold(one))))
    X, scores = np.random.default_rng(1).uniform(0.0, 0.5, (200, 4)), []
    for sign in (1.0, -1.0):
        seen = []
        for seed in range(40):
            group = InProcessParties([Party(X[:, :2], name="holder"), Party(X[:, 2:], name="other", data_norm=1.0)])
            with recorded(group) as crossings:
                model = estimator("logistic", seed, epsilon=2.0).fit(group, np.full(200, sign))
            seen += [c.message.labels for c in crossings if isinstance(c.message, TrainOnLabels)]
        scores.append(np.concatenate(seen))
    claimed = model.party_guarantees_["holder"].epsilon_at(0.0)
    assert abs(claimed - 1.5) < 1e-6
    return Scores(*scores, claimed, delta=0.0, gaussian=False)


def model_of_a_party(kind, label, share, epsilon, runs, factor, patch):
    """Who gets a party's private model, with all releases behind it, knows the released labels and all other rows.

    A person's rows at both parties are replaced. Where the label is too, the audit is of all releases together; where
    it stays, so does the released one, and nearly all of the logistic model's budget is for the sum of rows times
    labels, which these rows move furthest.
    """
    rng = np.random.default_rng(0)
    own, others = rng.normal(size=(9, 2)), np.abs(rng.normal(size=(9, 2)))
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    signs = np.where(rng.random(10) < 0.5, 1.0, -1.0)
    transcript, trainings = Transcript(patch, factor), []
    for row, last in ((ONE, 1.0), (OTHER, label)):
        group = InProcessParties([
            Party(np.vstack([own, row]), name="holder"),
            Party(np.vstack([others, row]), name="other", data_norm=1.0, nonnegative=True),
        ])  # fmt: skip
        y = np.append(signs[:-1], last)
        model = estimator(kind, 0, epsilon=epsilon, mechanism_options={"label_share": share}).fit(group, y)

        def train(seed, group=group, y=y, plan=model.plan_):
            group.parties["other"].seed(2 * seed + 1)
            plan.solve(group, y, "trial", Streams(2 * seed))

        trainings.append(train)
    # the label holder's own model is not released; the one of the fit above will do for all trials
    patch.setattr(local_models, "train_alone", lambda *given: None)
    alone = label == 1.0
    claimed = (model.party_guarantees_["other"] if alone else model.guarantee_).epsilon
    return Scores(*transcript.scores(trainings, runs), claimed, gaussian=alone)


# --- Frank-Wolfe ------------------------------------------------------------------------------------------------------

ROWS = (np.array([[1.0], [0.0]]), np.array([[-1.0], [0.0]]))  # row 0 replaced by its opposite


def directions(factor, patch):
    """How often the only column is taken in the direction of the replaced person's entry.

    The ball is so small that residuals stay at their clip.
    """
    scale_choices(patch, factor)
    steps, draws, right = 12, 12_000, 0
    width = bounded_range(1.0, DELTA, steps)
    request = TrainOnBall("squared", [1.0, 0.0], 1e-9, 1.0, draws, width, 0, 1.0, "m")
    for place, (table, wanted) in enumerate(zip(ROWS, (0, 1), strict=True)):
        right += choose_alone(table, 1.0, request, stream(place), Team(1, None))[0].count(wanted)
    return Answers(right, draws, steps)


def shared_columns(sketch, factor, patch):
    """A shared column, for the longest column of J."""
    n, multiplier = 6, 1.0 / gaussian_mu(1.0, DELTA)
    release = ColumnRelease(multiplier, sketch)
    assert np.isclose(release.event.noise_multiplier, multiplier, rtol=1e-9, atol=0.0)
    unit = max(np.eye(n), key=lambda each: np.linalg.norm(sketch.compress(each)))
    rest = np.random.default_rng(0).uniform(-1, 1, n) * (1 - unit)
    columns = rest + unit, rest - unit
    return ratios(lambda place, noise: release.release(columns[place], noise), factor, patch)


# --- noisy ADMM -------------------------------------------------------------------------------------------------------

NOISY = {  # the other rows, bounds on scores, norms and targets, the penalty, and what the coordinator sends
    # like-minded others hold x at the edge of the ball; the replaced row's own score goes from c to -c
    "own score": (np.ones((200, 1)), (1.0, 1.2, 2.0), 50.0, np.full(201, 2.0)),
    # the others' scores move as far as they can: kappa = lambda / rho = 0.5, target_bound = (3 + 2 kappa) norm_bound
    "others' scores": (np.full((2000, 1), (2.5 / 2000) ** 0.5), (0.05, 0.7, 2.8), 0.5, np.append(-2.8, np.zeros(2000))),
}


def noisy_admm(case, factor, patch):
    """One message."""
    rest, bounds, penalty, targets = NOISY[case]
    tables = [np.vstack([[[row]], rest]) for row in (1.0, -1.0)]
    blocks = [
        NoisyBlock(table, score_release(*table.shape, penalty, 1.0, *bounds, gaussian_mu(1.0, DELTA)))
        for table in tables
    ]
    for block in blocks:
        block.update(targets / 2.0)
    return ratios(lambda place, noise: blocks[place].send(noise), factor, patch)


AUDITS = (
    Audit("local models: labels", released_labels, least=0.85, **SLOW),
    *(
        Audit(f"local models: {kind} model of a party", partial(model_of_a_party, kind, 1.0, 0.005, 6.0, 1000), **SLOW)
        for kind in ("logistic", "ridge")
    ),
    Audit("local models: labels and model", partial(model_of_a_party, "ridge", -1.0, 0.4, 2.0, 1500), **SLOW),
    Audit("vertical Frank-Wolfe: choices", directions, least=0.4),
    Audit("vertical Frank-Wolfe: columns, sketched", partial(shared_columns, Sketch(6, 8, 3)), least=0.4),
    *(Audit(f"noisy ADMM, {case}", partial(noisy_admm, case), least=0.4) for case in NOISY),
)  # fmt: skip
