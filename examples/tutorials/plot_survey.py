"""
A survey in the browser
=======================

**In a hurry?** Nobody collects the answers. Each browser turns them into 22 bytes that are private by themselves, and
the model is learnt from these. The price is people: the picture at the end shows how the error falls with their number.

The people of this page are made up, so that the model can be compared with the truth.
"""

import base64
import json
import secrets
import shutil
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import uvicorn

from sottovoce.local import Aggregator, CategoricalFeature, NumericFeature, Protocol, Randomizer
from sottovoce.local.collector.service import make_app
from sottovoce.local.collector.storage import ReportStore
from sottovoce.local.device.survey import write_survey

# %%
# The protocol: what is asked, and what a report may reveal
# ---------------------------------------------------------
#
# It is public. Each device checks it before it answers. With epsilon = 2 nothing becomes more than 7.4 times as likely
# because of one person's answers.

protocol = Protocol.create(
    features=[
        NumericFeature("age", 18, 90),
        NumericFeature("hours", 0, 60),
        CategoricalFeature("plan", ["free", "family", "business"]),
    ],
    classes=["no", "yes"],
    epsilon=2.0,
    n_expected=10_000,
)

# %%
# A collector
# -----------
#
# It is a web service. On the command line it is ``sottovoce local collect``; here it runs in this process.

folder = Path(tempfile.mkdtemp())
page = folder / "page"
write_survey(protocol, page)
words = json.loads((page / "survey.json").read_text(encoding="utf-8"))
words["title"] = "Will you stay with us?"
words["questions"]["age"]["text"] = "How old are you?"
words["questions"]["hours"]["text"] = "How many hours a month do you use it?"
words["questions"]["plan"]["text"] = "Which plan do you have?"
words["label"]["text"] = "Will you renew next year?"
(page / "survey.json").write_text(json.dumps(words), encoding="utf-8")

store = ReportStore(f"sqlite:///{folder / 'reports.db'}", protocol, create=True)
collector = uvicorn.Server(uvicorn.Config(make_app(protocol, store, static=page), port=0, log_level="warning"))
thread = threading.Thread(target=collector.run)
thread.start()
while not collector.started:
    time.sleep(0.05)
address = f"http://127.0.0.1:{collector.servers[0].sockets[0].getsockname()[1]}"

# %%
# What people see
# ---------------
#
# The page comes from the collector, and loads nothing from elsewhere. It is opened in Chromium where there is one; else
# this is a picture of it that was made before.


def picture():
    """Return a picture of the survey page, as it is now."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = chromium.new_page(viewport={"width": 720, "height": 780})
        tab.goto(address)
        tab.locator("#form:not([hidden])").wait_for()
        tab.screenshot(path=folder / "page.png", full_page=True)
        chromium.close()
    return folder / "page.png"


try:
    shown = picture()
except Exception as why:  # no browser here, or none that starts
    print(f"a stored picture: {type(why).__name__}")
    here = Path(globals().get("__file__", "a notebook")).resolve().parent
    shown = here.parents[1] / "docs" / "figures" / "survey_page.png"

pixels = plt.imread(shown)
figure, axes = plt.subplots(figsize=(6.0, 6.0 * pixels.shape[0] / pixels.shape[1]), layout="constrained")
axes.imshow(pixels)
axes.set_axis_off()
plt.show()

# %%
# Simulated devices
# -----------------
#
# In use each of these lines runs on its owner's own device. 22 bytes and a token leave it, and nothing else.


def people(n, rng):
    """Return made-up people, and whether they renew."""
    age, hours = rng.integers(18, 91, n), rng.uniform(0, 60, n).round(1)
    plan = rng.choice(["free", "family", "business"], n)
    liking = 0.1 * (hours - 25) + 2.0 * (plan == "family") - 0.03 * (age - 45)
    renew = np.where(liking + rng.logistic(size=n) > 0, "yes", "no")
    records = [
        {"age": int(a), "hours": float(h), "plan": str(p)} for a, h, p in zip(age, hours, plan, strict=True)
    ]  # fmt: skip
    return records, renew.tolist()


rng = np.random.default_rng(0)
device = Randomizer(protocol, max_epsilon=2.0)  # a device refuses a protocol that asks for more
records, renew = people(2_000, rng)
sent = []
for record, label in zip(records, renew, strict=True):
    token = secrets.token_urlsafe(16)
    report = device.report(record, label, token=token.encode())
    sent.append({"token": token, "report": base64.b64encode(report).decode()})
print("one person's answers:", records[0], renew[0])
print("what is sent:        ", sent[0])

for start in range(0, len(sent), 1000):
    body = json.dumps(sent[start : start + 1000]).encode()
    urllib.request.urlopen(urllib.request.Request(f"{address}/reports", body, {"Content-Type": "application/json"}))

# %%
# The model
# ---------

aggregator = Aggregator(protocol)
for reports in store.reports():
    aggregator.add(reports)
collector.should_exit = True
thread.join()
store.close()

model = aggregator.fit()
others, truth = people(5_000, rng)
print(f"{aggregator.n_reports:,} reports; accuracy on 5,000 other people {model.score(others, truth):.3f}")
print(model.guarantee_.statement())

# %%
# How many people?
# ----------------
#
# The same with more and fewer people, three times each. Nobody could draw this picture of a real survey: it needs the
# answers. Before a survey ``sottovoce local plan`` forecasts it.

sizes = [300, 1_000, 3_000, 10_000]


def error(n):
    """Return the share of wrong predictions of a model from n reports."""
    learnt = Aggregator(protocol)
    learnt.add(device.report(record, label) for record, label in zip(*people(n, rng), strict=True))
    return 1.0 - learnt.fit().score(others, truth)


errors = np.array([[error(n) for _ in range(3)] for n in sizes])
best = 1.0 - np.mean(
    [
        (0.1 * (one["hours"] - 25) + 2.0 * (one["plan"] == "family") - 0.03 * (one["age"] - 45) > 0) == (label == "yes")
        for one, label in zip(others, truth, strict=True)
    ]
)
for n, values in zip(sizes, errors, strict=True):
    print(f"{n:>6,} people: error {np.median(values):.3f} ({values.min():.3f} to {values.max():.3f})")
print(f"who knows the truth about these people errs in {best:.3f}")

figure, axes = plt.subplots(figsize=(7.5, 4.0), layout="constrained")
axes.axhline(best, color="0.35", linestyle="--", label="the truth that made these people")
axes.axhline(min(np.mean(np.array(truth) == name) for name in protocol.classes), color="0.6", linestyle=":",
             label="always the commoner answer")  # fmt: skip
axes.fill_between(sizes, errors.min(axis=1), errors.max(axis=1), color="tab:blue", alpha=0.2, linewidth=0)
axes.plot(sizes, np.median(errors, axis=1), "o-", color="tab:blue", label="from private reports, epsilon = 2")
axes.set_xscale("log")
axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
axes.set_xticks([], minor=True)
axes.set(xlabel="people who report", ylabel="share of wrong predictions", ylim=(0, None))
axes.legend(loc="lower left", frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Next: :doc:`one private report from each person </guide/local>`, with tables of the people
# needed by epsilon and number of features, and of what attackers can do.

shutil.rmtree(folder)
