"""What a run does at the coordinator: align, train or score, and what it leaves in its folder.

The folder is the coordinator's own; nothing of it is sent.
"""

import csv
import io
import json
import logging
import math
import secrets
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.special import expit

from sottovoce._files import write_whole
from sottovoce._plain_data import plain
from sottovoce._shown import in_one_line
from sottovoce.exceptions import DataError, MessageError, ParameterError, PartyError, SottovoceError
from sottovoce.ledger import Ledger
from sottovoce.privacy.events import NonPrivateEvent
from sottovoce.vertical.coordinator.checkpoint import Checkpoint
from sottovoce.vertical.coordinator.exact import own_model_name
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import SumOfScores, Term, check_affordable
from sottovoce.vertical.estimators.base import VerticalEstimator
from sottovoce.vertical.estimators.prediction import Comparison
from sottovoce.vertical.estimators.receipts import COORDINATOR, result_texts, scorer_from
from sottovoce.vertical.estimators.tasks import VerticalClassifier, VerticalLogisticModel
from sottovoce.vertical.flare.hardening.envelope import Signed
from sottovoce.vertical.flare.kit import clear_leftovers
from sottovoce.vertical.flare.parties import Call, FlareParties
from sottovoce.vertical.flare.runs import CHECKPOINT, Progress, RunSpec
from sottovoce.vertical.flare.site import Site
from sottovoce.vertical.party.journal import Journal
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.wire import refusal

ALIGNMENT: Final = "alignment.json"
_PEOPLE: Final = "people.json"  # of a run that may be resumed, in its checkpoint
PREDICTIONS: Final = "predictions.csv"
COMPARISON: Final = "comparison.json"
_LOG: Final = logging.getLogger(__name__)
_ALIGNING_SECONDS: Final = 600.0  # that a party has at least for an answer of the alignment
_OPENING_SECONDS: Final = 120.0  # that a party has at least to read its table
_FAREWELL_SECONDS: Final = 5.0


def execute(kit: Any, run: str, call: Call) -> dict[str, Any]:
    """Do a run with the parties of the kit's federation and return how it ended; only an interrupt is raised.

    ``kit``: the coordinator's.
    ``run``: a folder among the kit's runs.
    ``call``: carries bytes to the other parties, which take none but those that are signed here.
    """
    folder = Path(kit.runs) / run
    spec = RunSpec.read(folder)
    facts = {"run": run, "purpose": spec.purpose, "model": spec.model}
    progress = Progress(folder, kit.federation.names, facts)
    doing: _Doing | None = None
    try:
        progress.phase("starting")
        # a name of its own: to parties each execution of a run is another run
        line = Signed(kit, secrets.token_hex(16), spec.purpose, call)
        doing = _Doing(spec, Site.read(kit), line, folder, progress)
        doing.begin()
        (doing.train if spec.purpose == "train" else doing.score)()
    except KeyboardInterrupt:
        progress.phase("stopped", error="the run was stopped before its end.")
        raise
    except Exception as error:
        if isinstance(error, MessageError):  # it could not be made: those that come are checked where they come
            why = f"the training diverged, and there is nothing to send ({error})."
        elif isinstance(error, SottovoceError):
            why = str(error)
            _LOG.error("run %s failed: %s", run, error)
        else:
            why = f"the coordinator failed ({type(error).__name__}); its log says more."
            _LOG.error("run %s failed:\n%s", run, "".join(traceback.format_exception(error)))
        progress.phase("failed", error=why)
    finally:
        if doing is not None:
            doing.end()
    return progress.told()


@dataclass(frozen=True)
class _Doing:
    """A run that is being done at the coordinator's site; its results go into its folder."""

    spec: RunSpec
    site: Site
    line: Signed
    folder: Path
    progress: Progress
    made: list[FlareParties] = field(default_factory=list)

    def begin(self) -> None:
        """Have all parties open their sites; a `PartyError` says which one does not, and why."""

        def opened(name: str) -> None:
            seconds = max(self.spec.timeout, _OPENING_SECONDS)
            try:
                said = self.line(name, None, seconds)
            except TimeoutError:
                raise PartyError(f"party {name!r} did not open its site within {seconds:g} s.") from None
            except ConnectionError:
                raise PartyError(f"party {name!r} is gone: its process ended or its line is cut.") from None
            if said != b"":
                why = refusal(said) or "bring all sites to the same version"
                raise PartyError(f"party {name!r} did not begin the run: {in_one_line(why)}")

        self._each(opened)

    def end(self) -> None:
        """Let parties that answer close their sites, and the threads go."""
        for parties in self.made:
            parties.end()
        with suppress(Exception):
            self._each(lambda name: self.line(name, b"", _FAREWELL_SECONDS))

    def _each(self, does: Callable[[str], object]) -> None:
        names = self.spec.sites(self.site.kit.federation)
        with ThreadPoolExecutor(len(names)) as pool:
            for future in [pool.submit(does, name) for name in names]:
                future.result()

    def _parties(
        self, home: Party, *, least_seconds: float = 0.0, helpers: bool = False, checkpoint: Checkpoint | None = None
    ) -> FlareParties:
        """Return the parties of the run around the one at home; with ``helpers`` those without a table too."""
        facts = self.site.kit.federation
        self.made.append(FlareParties(
            home, facts.parties if helpers else facts.with_tables, self.line, checkpoint=checkpoint,
            timeout=max(self.spec.timeout, least_seconds), progress=self.progress,
        ))  # fmt: skip
        return self.made[-1]

    def train(self) -> None:
        spec, site, folder, estimator = self.spec, self.site, self.folder, make_estimator(self.spec, self.site)
        facts = {
            "estimator": type(estimator).__name__,
            "parameters": {name: repr(value) for name, value in sorted(estimator.get_params().items())},
            "parties": list(site.kit.federation.names),
        }
        clear_leftovers(site.kit.state)
        with (
            closing(Journal(site.kit.state / "journal")) as journal,
            closing(open_home(site, "train", journal=journal)) as home,
            closing(Checkpoint(folder / CHECKPOINT, facts, begun=True)) as checkpoint,
        ):
            if estimator.epsilon == math.inf:  # who will not pay says so before anybody learns who is in common
                refuse_exact(site)
                costs = dict.fromkeys(site.kit.federation.with_tables, NonPrivateEvent())
                check_affordable(self._parties(home), costs)
            self._align(home)
            self.progress.phase("training", resumed=checkpoint.is_resumed)
            estimator.fit(self._parties(home, helpers=spec.with_helpers, checkpoint=checkpoint))
            for name, part in home.parts.items():
                site.keep(name, part)
            features = {home.name: home.feature_names or tuple(map(str, range(home.n_features)))}
            for name, text in result_texts(estimator, features).items():
                if not (folder / name).exists():  # else it was written just before the run was cut off: the same model
                    write_whole(folder / name, text, private=True)
            self.progress.phase("done", **_told(estimator))
            checkpoint.end()
            (folder / CHECKPOINT / _PEOPLE).unlink(missing_ok=True)

    def _align(self, home: Party) -> None:
        """Take the people in common; a run that goes on takes those of before, tables without identifiers all."""
        from sottovoce.vertical.alignment import align_over
        from sottovoce.vertical.requests.alignment import announce, read_announcement
        from sottovoce.vertical.requests.identifiers import canonical_identifiers

        self.progress.phase("aligning")
        if home.ids is None:
            return
        parties = self._parties(home, least_seconds=_ALIGNING_SECONDS)
        kept = self.folder / CHECKPOINT / _PEOPLE
        people = read_announcement(kept.read_bytes()) if kept.exists() else None
        report = align_over(parties, client=home.name, people=people)
        if people is None:
            if self.spec.purpose == "train":
                write_whole(kept, announce(canonical_identifiers("id", home.ids).to_pylist()).decode(), private=True)
            content = {"digest": home.alignment, **plain(report)}
            write_whole(self.folder / ALIGNMENT, json.dumps(content, indent=2) + "\n", private=True)

    def score(self) -> None:
        """Score people whom all parties hold, by a model that an earlier run trained."""
        spec, site, folder = self.spec, self.site, self.folder
        assert spec.trained is not None
        trained = folder.parent / spec.trained
        content = _read_json(trained / COORDINATOR)
        scorer = scorer_from(content)
        home = open_home(site, "score", labels=spec.labels)
        if not home.keeps(content["model"]):
            raise DataError(
                f"{site.kit.name!r} keeps no part of the model of run {spec.trained} that fits the columns of its "
                "schema. Score people with the schema of the training."
            )
        self._align(home)
        self.progress.phase("scoring")
        parties = self._parties(home)
        with parties.session() as session:
            scores = scorer.scores(session, content["model"])
        estimator = make_estimator(RunSpec.read(trained), site)
        if isinstance(estimator, VerticalClassifier):
            estimator.classes_ = np.asarray(estimator.classes)
        comparison = None
        if spec.labels:
            comparison = _comparison(estimator, home, parties, content, scores)
            write_whole(folder / COMPARISON, json.dumps(plain(comparison), indent=2) + "\n", private=True)
        write_whole(folder / PREDICTIONS, _predictions_text(estimator, home, scores), private=True)
        self.progress.phase("done", people=len(scores), comparison=plain(comparison))


def open_home(site: Site, purpose: str, **more: Any) -> Party:
    """Return the coordinator's own party: its account is charged by the estimator, for all parties together.

    A table that is not there, or not what its schema says, is an error.
    """
    return replace(site, budget=None).open_party(purpose, **more)


def make_estimator(spec: RunSpec, site: Site) -> VerticalEstimator:
    """Return the estimator that a run asks for, with the public facts of the coordinator's schema; not fitted."""
    schema, more = site.schema, dict[str, Any]()
    kind = spec.estimator()
    if isinstance(kind, VerticalClassifier):
        if schema.classes is None or len(schema.classes) != 2:
            raise ParameterError(
                f"{site.schema_file}: a model of kind {spec.model!r} predicts one of two classes: the target must be "
                'of type = "categorical" with categories = [negative, positive]. For a number use ridge or lasso.'
            )
        more["classes"] = list(schema.classes)
    else:
        if schema.label_bounds is None:
            raise ParameterError(
                f"{site.schema_file}: a model of kind {spec.model!r} predicts a number: the target must be of "
                'type = "numeric" with bounds = [low, high]. For classes use logistic, sparse-logistic or svm.'
            )
        more["label_bounds"] = schema.label_bounds
    if site.budget is not None:
        more |= {"ledger": site.budget.ledger, "dataset": site.budget.dataset}
    kind.set_params(label_holder=site.kit.name, **more)
    return kind


def refuse_exact(site: Site) -> None:
    """Refuse a training without noise where the coordinator's own account covers none."""
    if site.budget is None:
        return
    known = Ledger(site.budget.ledger).datasets().get(site.budget.dataset)
    if known is not None and not known.allow_nonprivate:
        raise ParameterError(
            f"--epsilon inf: dataset {known.name!r} of {site.kit.site_file} has a budget of epsilon={known.epsilon!r}, "
            "and no budget covers a training without noise. Train with a finite epsilon, or leave [budget] out."
        )


def _told(estimator: VerticalEstimator) -> dict[str, Any]:
    charge = estimator.charge_
    history = estimator.history_
    return {
        "model_name": estimator.model_,
        "people": estimator.plan_.facts.n_samples,
        "training_rounds": estimator.n_rounds_,
        "converged": None if history is None else history.converged,
        "statement": estimator.guarantee_.statement(),
        "given_away": {name: receipt.statement() for name, receipt in estimator.party_guarantees_.items()},
        "charge": None if charge is None else {"dataset": charge.dataset, "charge": charge.charge},
    }


def _comparison(
    estimator: VerticalEstimator, home: Party, parties: Parties, content: dict[str, Any], scores: Any
) -> Comparison:
    """Return how good the joint model is on these labels, beside the coordinator's own where one was trained."""
    if home.y is None or len(home.y) != len(scores):
        raise DataError(f"{home.name!r} holds no labels of these people.")
    measures = estimator._measures
    own_name = own_model_name(content["model"])
    own = {}
    if home.keeps(own_name):
        with parties.session() as session:
            own = measures(home.y, SumOfScores({home.name: Term()}).scores(session, own_name))
    return Comparison(len(scores), own, measures(home.y, scores))


def _predictions_text(estimator: VerticalEstimator, home: Party, scores: Any) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    people = range(1, len(scores) + 1) if home.ids is None else home.ids
    columns: dict[str, Any] = {"row" if home.ids is None else "id": people}
    if isinstance(estimator, VerticalClassifier):
        columns["prediction"] = estimator.classes_[(scores > 0.0).astype(int)].tolist()
        if isinstance(estimator, VerticalLogisticModel):
            columns["probability"] = expit(scores).tolist()
        else:
            columns["score"] = scores.tolist()
    else:
        columns["prediction"] = scores.tolist()
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return buffer.getvalue()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ParameterError(f"{path}: the run left no model there: it did not end. Resume it first.") from None
    return dict(content)
