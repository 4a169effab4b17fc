"""
Coming from diffprivlib
=======================

**In a hurry?** Names are those of scikit-learn in both. Here a budget has a delta, a scaler and its model share one
budget, nothing is read from the rows without noise, and each fit leaves a receipt.

The table is that of the RAND health insurance experiment, as it comes with statsmodels: 20,190 years of persons. Who
saw a doctor twice or more in the year?
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsmodels.datasets import randhie

import sottovoce as sv
from sottovoce.exceptions import PrivacyWarning

raw = randhie.load_pandas().data
X = raw[["lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp"]]
y = np.where(raw["mdvis"] >= 2, "yes", "no")
X, X_test, y, y_test = train_test_split(X, y, random_state=0)

# %%
# The same in both
# ----------------
#
# With diffprivlib, as its examples have it::
#
#     from diffprivlib.models import LogisticRegression, StandardScaler
#
#     scaler = StandardScaler(epsilon=0.5, bounds=(low, high))    # bounds that everybody knows
#     model = LogisticRegression(epsilon=0.5, data_norm=3.0, C=1.0)
#     make_pipeline(scaler, model).fit(X, y)
#
# Here scaler and model get one budget, and a small part of it finds where the columns lie. No bound has to be known:

model = sv.DPPipeline(
    [("scale", sv.DPScaler()), ("model", sv.DPLogisticRegression(classes=["no", "yes"]))], epsilon=1.0, delta=1e-6
)
model.fit(X, y)
print(f"accuracy {model.score(X_test, y_test):.3f}")

# %%
# Which name is which?
# --------------------
#
# ====================================  =================================================================
# diffprivlib                           here
# ====================================  =================================================================
# ``epsilon=1.0``                       ``epsilon=1.0, delta=1e-6``: Gaussian noise, so a delta well below 1 / n
# ``data_norm=3.0``                     the same; or ``"auto"``, the default, which buys a bound with noise
# ``data_norm=None``                    does not exist: it reads the longest row without noise, and warns
# ``C=1.0``                             ``alpha``, which is 1 / (C n)
# ``StandardScaler(bounds=...)``        ``DPScaler()`` in a ``DPPipeline``; ``bounds`` where they are known
# ``LinearRegression(bounds_y=...)``    ``DPRidge(label_bounds=...)``; rows need no bounds
# ``accountant=BudgetAccountant(...)``  ``ledger="sqlite:///budget.db", dataset="..."``, on disk, charged first
# ``PrivacyLeakWarning``                ``PrivacyWarning``; what is left out stands in the receipt
# forests, naive Bayes, k-means, PCA    not here
# ====================================  =================================================================
#
# A parameter of the other library is answered with ours:

try:
    sv.DPLogisticRegression(epsilon=1.0, delta=1e-6, C=1.0)
except TypeError as error:
    print(error)

# %%
# A known bound is used as there, and then there is nothing to find:

inside = X.to_numpy() / np.linalg.norm(X, axis=1, keepdims=True).clip(
    1e-9
)  # each row by itself: no row is longer than 1
bounded = sv.DPLogisticRegression(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=["no", "yes"]).fit(inside, y)
print(f"data_norm = {bounded.data_norm_:g}, given, not computed")

# %%
# What a fit leaves
# -----------------
#
# Where diffprivlib's accountant counts in the process, a receipt can be kept, verified and signed. It says what was
# promised, what was released and what is not covered. That the pipeline is fitted again on the same rows, without a
# ledger, is warned of, and the receipt says it too.

again = model.fit(X, y)
print(again.guarantee_.statement())
print(dict(again.guarantee_.rows())["ledger"])

# %%
# Accuracy against epsilon
# ------------------------
#
# Each epsilon is trained three times, because the noise is new each time. These data are public, so the warning about
# fits of one table is switched off.

warnings.simplefilter("ignore", PrivacyWarning)
epsilons = [0.03, 0.1, 0.3, 1.0, 3.0]
scores = [[model.set_params(epsilon=epsilon).fit(X, y).score(X_test, y_test) for _ in range(3)] for epsilon in epsilons]
plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y).score(X_test, y_test)
for epsilon, found in zip(epsilons, scores, strict=True):
    print(f"epsilon {epsilon:<4g} accuracy {np.mean(found):.3f}")
majority = max(np.mean(y_test == label) for label in ("no", "yes"))
print(f"without privacy {plain:.3f}, always the larger class {majority:.3f}")

figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
axes.plot(epsilons, [np.mean(found) for found in scores], "o-", label="DPPipeline, mean of 3")
axes.axhline(plain, color="black", linestyle="--", linewidth=1, label="scikit-learn, without privacy")
axes.set(xscale="log", xlabel="epsilon (further left: more private)", ylabel="accuracy on held-out rows")
axes.legend(frameon=False)
plt.show()
