"""Fit the weights of the answerability from labelled answer documents.

Input: JSON lines on standard input, each ``{"answerable": true, "group": "licences", "document": {…}}``
with an answer document as ``pincite ask --json`` prints it. Every group weighs the same, however many
questions it has; ``"weight"`` on its lines changes that. Prints the weights of a logistic function, and
per group how many would be answered.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

import numpy as np

FEATURES = ("coverage_all", "coverage_best", "passage_cosine", "passage_maxsim")
PENALTY = 0.02
STEPS = 4000
RATE = 0.3


def main() -> None:
    rows = [json.loads(line) for line in sys.stdin if line.strip()]
    rows = [row for row in rows if row["document"]["answerability"] is not None]
    x = np.array([[row["document"]["answerability"]["features"][f] for f in FEATURES] for row in rows])
    y = np.array([bool(row["answerable"]) for row in rows], dtype=float)
    groups = [row["group"] for row in rows]
    sizes = Counter(groups)
    weight = np.array([float(row.get("weight", 1.0)) / sizes[row["group"]] for row in rows])
    weight /= weight.sum()
    mean, spread = x.mean(axis=0), x.std(axis=0) + 1e-9
    z = np.c_[np.ones(len(x)), (x - mean) / spread]
    theta = np.zeros(z.shape[1])
    for _ in range(STEPS):
        slope = z.T @ (weight * (1 / (1 + np.exp(-z @ theta)) - y))
        slope[1:] += PENALTY * theta[1:]
        theta -= RATE * slope
    weights = theta[1:] / spread
    bias = theta[0] - weights @ mean
    fitted = {"bias": round(float(bias), 1)}
    fitted |= {f: round(float(w), 1) for f, w in zip(FEATURES, weights, strict=True)}
    print(json.dumps(fitted))
    p = 1 / (1 + np.exp(-(x @ weights + bias)))
    for group in sizes:
        mine = p[[g == group for g in groups]]
        print(f"{group}: {int((mine >= 0.5).sum())} of {len(mine)} answered, median {np.median(mine):.2f}")


if __name__ == "__main__":
    main()
