"""
A hospital and a bank: columns of the same people
=================================================

**In a hurry?** Two organisations know different things about the same people. A joint model is better than what either
could do alone, and neither shows the other a column. What it takes, and who sees what, is on this page.

The table is that of the RAND health insurance experiment, which comes with the package statsmodels: 20,190 rows, a year
of somebody's life each. Who saw a doctor more than twice in that year? The columns are real; that a hospital holds some
of them and a bank the others is made up. What is protected here is one row.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from statsmodels.datasets import randhie

import sottovoce as sv
from sottovoce.vertical import Helper, Party, VerticalLogisticRegression, align

# %%
# Two tables
# ----------
#
# The hospital knows how ill people are, and how often they came. The bank handles the money: the share of a bill that
# they pay themselves, their deductible, and what they were paid for taking part. Each has the people in its own order.

raw = randhie.load_pandas().data
often = np.where(raw["mdvis"] > 2, "yes", "no")
hospital_columns = pd.DataFrame(
    {
        "illnesses": raw["disea"],
        "limitation": raw["physlm"],
        "health": np.select(
            [raw["hlthg"] == 1, raw["hlthf"] == 1, raw["hlthp"] == 1], ["good", "fair", "poor"], "fine"
        ),
    }
)
bank_columns = pd.DataFrame(
    {
        "own_share": np.expm1(raw["lncoins"]).round(),
        "deductible": np.where(raw["idp"] == 1, "yes", "no"),
        "most_out_of_pocket": raw["fmde"],
        "incentive": raw["lpi"],
    }
)

# the years of one person follow each other: none of them is tested on while another is trained on
facts = raw.drop(columns="mdvis")
person = (facts != facts.shift()).any(axis=1).cumsum()
rng = np.random.default_rng(0)
tested = person.isin(rng.choice(person.max() + 1, person.max() // 5, replace=False)).to_numpy()

# %%
# Each says what is publicly known about its own columns: the rules of the insurance, the form. Nothing is read from
# the data.

hospital_facts = sv.SchemaEncoder(
    {
        "illnesses": {"bounds": (0, 60), "scale": "log"},
        "limitation": (0, 1),
        "health": ["fine", "good", "fair", "poor"],
    }
)
bank_facts = sv.SchemaEncoder(
    {"own_share": (0, 100), "deductible": ["no", "yes"], "most_out_of_pocket": (0, 9), "incentive": (0, 8)}
)


def organisations(rows, rows_at_the_bank, **told):
    """Return hospital and bank with the rows that each has, in its own order."""
    hospital = Party(
        hospital_facts.fit_transform(hospital_columns.iloc[rows]), rows, name="hospital", y=often[rows],
        data_norm=hospital_facts.data_norm, **told,
    )  # fmt: skip
    bank = Party(
        bank_facts.fit_transform(bank_columns.iloc[rows_at_the_bank]), rows_at_the_bank, name="bank",
        data_norm=bank_facts.data_norm, **told,
    )  # fmt: skip
    return [hospital, bank]


train, test = np.flatnonzero(~tested), np.flatnonzero(tested)
hospital, bank = organisations(train, rng.permutation(train))
print(f"{len(train):,} rows to train on, {len(test):,} to test on")

# %%
# One model, each its own part
# ----------------------------
#
# ``align`` finds the rows that both have. Here both parties are objects in one process: a simulation, to find out
# whether a joint model pays. Between organisations each is a process of its own, with the same messages.
#
# ``"local-models"`` sends the labels once, behind randomised response, and nothing else. ``"secure"`` trains inside
# secure computation, where all columns count and only noisy sums are opened; a *notary*, who has no table, helps to
# compute. Its engine runs in this process here: the same whole numbers, in clear.

new_people = organisations(test, test, answers={"score"})


def trained(mechanism):
    """Return a joint model, (1, 1e-6)-differentially private for one row at both organisations together."""
    secure = mechanism == "secure"
    parties = align([hospital, bank, Helper("notary")] if secure else [hospital, bank])
    own = {"engine": "in-process"} if secure else {}
    return VerticalLogisticRegression(
        epsilon=1.0, delta=1e-6, mechanism=mechanism, classes=["no", "yes"], **own
    ).fit(parties)  # fmt: skip


def auc(scores):
    """Return how often somebody who came often is ranked above somebody who did not."""
    return roc_auc_score(often[test] == "yes", scores)


joint = {
    name: [auc(trained(name).decision_function(new_people)) for _ in range(3)] for name in ("local-models", "secure")
}

# %%
# Beside that, what nobody has in real life: the models of the hospital's columns alone, of the bank's alone (if it knew
# the labels), and of both in one table, all without noise.

tables = {
    "hospital alone": hospital_facts.fit_transform(hospital_columns),
    "bank alone": bank_facts.fit_transform(bank_columns),
}
tables["one table"] = np.hstack(list(tables.values()))
exact = {
    name: auc(LogisticRegression(max_iter=1000).fit(X[train], often[train]).decision_function(X[test]))
    for name, X in tables.items()
}
bars = {
    "hospital alone, without privacy": [exact["hospital alone"]],
    "bank alone, without privacy": [exact["bank alone"]],
    "joint, local-models, epsilon = 1": joint["local-models"],
    "joint, secure, epsilon = 1": joint["secure"],
    "one table, without privacy": [exact["one table"]],
}
for name, values in bars.items():
    print(f"{name:<34} AUC {', '.join(f'{value:.3f}' for value in values)}")

# %%
# A bar is a median; the dots are single models, for the noise is new in each. A coin would have 0.5.

colours = ["0.7", "0.7", "tab:orange", "tab:green", "0.4"]
figure, axes = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
for place, (values, colour) in enumerate(zip(bars.values(), colours, strict=True)):
    axes.barh(place, np.median(values) - 0.5, left=0.5, color=colour, height=0.65)
    axes.plot(values, [place] * len(values), "o", color="black", markersize=3)
    axes.annotate(f"{np.median(values):.3f}", (max(*values, 0.5) + 0.002, place), va="center")
axes.set_yticks(range(len(bars)), bars)
axes.invert_yaxis()
axes.set(xlim=(0.5, 0.64), xlabel="AUC on people who took no part")
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Who sees what
# -------------
#
# ==================  ==========================================  ==============================================
# who                 with ``"local-models"``                     with ``"secure"``
# ==================  ==========================================  ==============================================
# the hospital        its columns, its labels; the bank's score   the same, and noisy sums that all parties open
#                     of people who are scored
# the bank            its columns; noisy labels, once             its columns; noisy sums that all parties open
# the notary          (does not take part)                        shares that look random; the same noisy sums
# who aligns          who is at both                              who is at both
# ==================  ==========================================  ==============================================
#
# What either party gives away about a person is in receipts of its own:

model = trained("secure")
print(model.guarantee_.statement())
for name, receipt in model.party_guarantees_.items():
    print(f"{name}: epsilon {receipt.epsilon:.3g}, unit {receipt.unit}")

# %%
# ``"secure"`` rests on parties that follow the protocol and do not collude, and is computational; its receipt says so.
# With these columns it was no better at epsilon = 2 and 4 (AUC 0.56 to 0.62 in six models), where ``"local-models"``
# had 0.62. So try both: ``vertical simulate`` compares each with the label holder's own model.
#
# Next: :doc:`columns at several organisations </guide/vertical>`, and :doc:`for real, over a
# network </guide/vertical_deployment>`. ``make demo-vertical`` shows four
# organisations, as four processes, with these data.
