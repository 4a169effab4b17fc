"""A vertical training in FLARE's own terms: a Controller that fits, and an Executor that answers for its columns.

The server holds the labels and some columns, as a hospital might; each client holds other columns of the same people,
in the same order. What crosses is bytes: a request goes out as a task, and its answer comes back in a Shareable.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller, Task
from nvflare.apis.shareable import Shareable, make_reply
from statsmodels.datasets import randhie

from sottovoce import SchemaEncoder
from sottovoce.vertical import Party, VerticalLogisticRegression
from sottovoce.vertical.flare.parties import FlareParties

# what is publicly known of each organisation's columns, by the name of its site
FACTS = {
    "server": {"illnesses": {"bounds": (0, 60), "scale": "log"}, "limitation": (0, 1)},
    "bank": {"own_share": (0, 100), "deductible": ["no", "yes"]},
    "employer": {"most_out_of_pocket": (0, 9), "incentive": (0, 8)},
}


def table() -> tuple[pd.DataFrame, np.ndarray]:
    """Return the columns of all, and who saw a doctor more than twice; a real site reads its own file here."""
    raw = randhie.load_pandas().data
    columns = {
        "illnesses": raw["disea"],
        "limitation": raw["physlm"],
        "own_share": np.expm1(raw["lncoins"]).round(),
        "deductible": np.where(raw["idp"] == 1, "yes", "no"),
        "most_out_of_pocket": raw["fmde"],
        "incentive": raw["lpi"],
    }
    return pd.DataFrame(columns), np.where(raw["mdvis"] > 2, "yes", "no")


def party(site: str, **told: Any) -> Party:
    """Return the organisation of a site with its own columns."""
    facts = SchemaEncoder(FACTS[site])
    rows = facts.fit_transform(table()[0][list(FACTS[site])])
    return Party(rows, name=site, data_norm=facts.data_norm, **told)


class Organisation(Executor):
    """A client: answers each request for its own columns, within its own budget, and shows nothing else."""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type == EventType.START_RUN:
            self.party = party(fl_ctx.get_identity_name(), budget=(2.0, 1e-5))

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: Any, abort_signal: Any) -> Shareable:
        reply = make_reply(ReturnCode.OK)
        reply["answer"] = self.party.handle(shareable["request"])
        return reply


class Training(Controller):
    """The server: holds the labels, asks the clients through tasks, and writes the receipt."""

    def __init__(self, epsilon: float, delta: float) -> None:
        super().__init__()
        self.epsilon, self.delta = epsilon, delta

    def start_controller(self, fl_ctx: Any) -> None:
        """Nothing to prepare."""

    def stop_controller(self, fl_ctx: Any) -> None:
        """Nothing to end."""

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        """Fit one model over all organisations."""

        def call(name: str, request: bytes, seconds: float) -> Any:
            answers: list[Any] = []

            def keep(client_task: Any, fl_ctx: Any) -> None:
                answers.append(client_task.result["answer"])

            task = Task("ask", Shareable({"request": request}), timeout=int(seconds), result_received_cb=keep)
            with self._engine.new_context() as context:
                self.send_and_wait(task, context, targets=[name], abort_signal=abort_signal)
            if not answers:
                raise TimeoutError
            return answers[0]

        others = sorted(client.name for client in self._engine.get_clients())
        parties = FlareParties(party("server", y=table()[1]), others, call)
        model = VerticalLogisticRegression(epsilon=self.epsilon, delta=self.delta, classes=["no", "yes"])
        model.fit(parties)
        workspace = self._engine.get_workspace()
        receipt = Path(workspace.get_run_dir(fl_ctx.get_job_id())) / "receipt.json"
        receipt.write_text(model.guarantee_.to_json(), encoding="utf-8")
        self.log_info(fl_ctx, f"trained with {', '.join(others)}: {model.guarantee_.statement()}")
