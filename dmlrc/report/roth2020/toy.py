"""roth-f6: the two-dimensional toy of Roth et al. 2020, trained here: one seed as it is drawn, several as records.

Four training classes lie on a diagonal; the four test classes on vertical and horizontal lines beside it. Settings are
from the authors' script, `toy_experiments/toy_example_diagonal_lines.py` of their public code: 15 points a line, an MLP
2-30-30-2 whose output is normalised, Adam at 0.03, 200 batches of 24, negative margin 0.1, switch probability 0.001.

That script does not train what the caption says: where it switches, it leaves out the pull between positives. So
`VARIANTS` has the regularised loss of the paper and its plain partner, and that of the script, which only pushes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import nn

from dmlrc import losses, metrics, paths
from dmlrc.metrics.spectrum import spectrum
from dmlrc.models.embedder import l2_normalize
from dmlrc.records import provenance
from dmlrc.report import statistics, style
from dmlrc.report.statistics import Estimate
from dmlrc.report.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY

POINTS, BATCH, STEPS, LR, NEG_MARGIN = 15, 24, 200, 0.03, 0.1
# each line from (x, y) to (x, y): the authors' script's
TRAIN_LINES = tuple(((low, low), (high, high)) for low, high in ((0.1, 0.3), (0.35, 0.55), (0.6, 0.8), (0.85, 1.05)))
TEST_LINES = ((0.2, 0.2), (0.2, 0.4)), ((0.2, 0.55), (0.2, 0.85)), ((0.4, 0.2), (0.6, 0.2)), ((0.7, 0.2), (0.9, 0.2))
DRAWN = ("plain", "regularised", "script")
COLUMNS = {
    "train_p1": ("P@1, training, %", ".0%"),
    "test_p1": ("P@1, test, %", ".0%"),
    "test_gap": ("distance of test classes", ".2f"),
    "spectrum": ("second singular value, %", ".1%"),
}
COLOURS = (BLUE, ORANGE, GREEN, RED), (SKY, PURPLE, GREY, "black")  # of the training and of the test classes


@dataclass(frozen=True)
class Variant:
    """A loss of the toy: its name in `losses`, its parameters, and the variant that it is compared with, if any."""

    label: str
    loss: str
    params: Mapping[str, float]
    partner: str | None = None


PUSH = {"neg_margin": NEG_MARGIN}
VARIANTS = {
    "pairs": Variant("Contrastive, all pairs", "contrastive", PUSH),
    "plain": Variant("Contrastive (D)", "contrastive_distance", PUSH),
    **{
        name: Variant(f"R-Contrastive (D), p = {p}", "r_contrastive", {**PUSH, "switch_probability": p}, "plain")
        for name, p in (("regularised", 0.001), ("regularised_cub200", 0.4))
    },
    # no distance on the unit circle is above 2, so nothing pulls
    "script": Variant("only pushing, as the script", "contrastive", {**PUSH, "pos_margin": 2.0}, "pairs"),
}


class Toy(NamedTuple):
    """One trained toy: points, labels and embeddings, (60, 2), (60,), (60, 2), of training and of test classes."""

    train: tuple[np.ndarray, np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray, np.ndarray]


def points_on_lines(ends: tuple, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points spread at random on lines, a class a line: (4 * POINTS, 2) and labels (4 * POINTS,)."""
    points = [start + rng.uniform(size=(POINTS, 1)) * (end - start) for start, end in np.asarray(ends)]
    return np.concatenate(points), np.repeat(np.arange(len(ends)), POINTS)


def train_toy(variant: Variant, seed: int = 0, steps: int = STEPS) -> Toy:
    """Train one toy. The points, the weights before training and the batches depend on the seed alone."""
    rng = np.random.default_rng(seed)
    (points, labels), (unseen, unseen_labels) = points_on_lines(TRAIN_LINES, rng), points_on_lines(TEST_LINES, rng)
    inputs, targets = torch.from_numpy(points).float(), torch.from_numpy(labels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = nn.Linear(2, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 2)
        network, loss = nn.Sequential(*layers), losses.create(variant.loss, **variant.params)
        optimizer = torch.optim.Adam(network.parameters(), lr=LR)
        for _ in range(steps):
            batch = rng.choice(len(points), BATCH, replace=False)
            optimizer.zero_grad()
            loss(l2_normalize(network(inputs[batch])), targets[batch]).backward()
            optimizer.step()
    return Toy((points, labels, _embed(network, points)), (unseen, unseen_labels, _embed(network, unseen)))


@torch.no_grad()
def _embed(network: nn.Module, points: np.ndarray) -> np.ndarray:
    return l2_normalize(network(torch.from_numpy(points).float())).numpy()


def second_share(embeddings: np.ndarray) -> float:
    """The smaller singular value's share of the sum: 0.5 for a ring, 0 where all points coincide; rho would be 0."""
    values = spectrum(embeddings)
    return float(values[1] / values.sum())


def measures(toy: Toy) -> dict[str, float]:
    """P@1 on training and on test classes, mean distance of the test classes' centres, `second_share` in training."""
    _, labels, embedded = toy.train
    _, unseen_labels, unseen = toy.test
    p1 = ("precision_at_1",)
    return {
        "train_p1": metrics.evaluate(embedded, labels, p1)["precision_at_1"],
        "test_p1": metrics.evaluate(unseen, unseen_labels, p1)["precision_at_1"],
        "test_gap": metrics.evaluate(unseen, unseen_labels, ("pi_inter",))["pi_inter"],
        "spectrum": second_share(embedded),
    }


def repeat(seeds: int, steps: int = STEPS) -> pd.DataFrame:
    """`measures` of every variant, and of the network before training ("untrained"), with variant and seed (from 0)."""
    variants = {"untrained": (VARIANTS["plain"], 0)} | {name: (variant, steps) for name, variant in VARIANTS.items()}
    return pd.DataFrame(
        {"variant": name, "seed": seed} | measures(train_toy(variant, seed, count))
        for name, (variant, count) in variants.items()
        for seed in range(seeds)
    )


def recorded_toys(seeds: int) -> pd.DataFrame:
    """`repeat`, from its records (`results/measured/roth2020-toy.csv`) where these hold so many seeds."""
    if (file := paths.measured() / "roth2020-toy.csv").exists():
        frame = pd.read_csv(file)
        if frame["seed"].max() + 1 >= seeds:
            return frame[frame["seed"] < seeds].drop(columns="commit")
    return repeat(seeds)


def record_toys(seeds: int) -> None:
    """Train the toy from so many seeds, and write the records that `recorded_toys` reads."""
    repeat(seeds).assign(commit=provenance.commit()).to_csv(paths.measured() / "roth2020-toy.csv", index=False)


def gain_over_partner(frame: pd.DataFrame, name: str) -> Estimate:
    """Mean difference of a variant to its partner in P@1 of the test classes, over the seeds. frame: `repeat`."""
    wide = frame.pivot(index="seed", columns="variant", values="test_p1")
    return statistics.mean(wide[name] - wide[VARIANTS[name].partner], "seeds")


def variant_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """roth-f6-seeds: means over the seeds, and what P@1 of the test classes gains over the partner, seed by seed."""
    rows = []
    for name, part in frame.groupby("variant", sort=False):
        variant = VARIANTS.get(name, Variant("before training", "", {}))
        row, partner = {"row": variant.label}, VARIANTS.get(variant.partner)
        means = {key: statistics.mean(part[key]) for key in COLUMNS}
        rows += [
            row | {"column": head, "form": form, "mean": means[key].value, "half": means[key].half}
            for key, (head, form) in COLUMNS.items()
        ]
        rows += [row | {"column": "compared with", "text": partner.label if partner else np.nan}]
        gain = gain_over_partner(frame, name) if partner else statistics.mean([])
        gained = {"column": "difference in test P@1, points", "form": "+.1%"}
        rows += [row | gained | {"mean": gain.value, "half": gain.half}]
    return pd.DataFrame(rows)


def toy_figure(toys: Mapping[str, Toy]) -> Figure:
    """roth-f6: the points, their embeddings on the circle for each of `DRAWN`, and the spectra of the training set."""
    figure, axes = style.canvas(4.2, 2, 3)
    first = toys[DRAWN[0]]
    _scatter(axes[0, 0], first.train[0], first.test[0], first)
    axes[0, 0].set(xlim=(0, 1.1), ylim=(0, 1.1), aspect="equal", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    axes[0, 0].set_title("the points", fontsize=8)
    for axis, name in zip(axes.flat[1:], DRAWN, strict=False):
        toy = toys[name]
        axis.add_patch(plt.Circle((0, 0), 1, fill=False, color="#CCCCCC", linestyle=":"))
        _scatter(axis, toy.train[2], 0.85 * toy.test[2], toy)  # on an inner ring, or one would hide the other
        axis.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", xticks=(), yticks=())  # the circle has radius 1
        axis.set_title(VARIANTS[name].label.replace(", ", ",\n"), fontsize=8)
    axis = axes[1, 1]
    for place, name in enumerate(DRAWN):
        values = spectrum(toys[name].train[2])
        axis.bar([place - 0.2, place + 0.2], values / values.sum(), width=0.36, color=(BLUE, ORANGE))
    axis.set_xticks(range(len(DRAWN)), ["plain", "p =\n0.001", "script"], fontsize=7.5)
    axis.set_title("singular values,\nshare of the sum", fontsize=8)
    axes[1, 2].set_axis_off()
    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="", label=f"{part} class {number + 1}")
        for part, colours, marker in (("training", COLOURS[0], "o"), ("test", COLOURS[1], "x"))
        for number, colour in enumerate(colours)
    ]
    axes[1, 2].legend(handles=handles, loc="center", frameon=False, fontsize=8)
    return figure


def _scatter(axis, train: np.ndarray, test: np.ndarray, toy: Toy) -> None:
    parts = ((train, toy.train[1], COLOURS[0], "o"), (test, toy.test[1], COLOURS[1], "x"))
    for points, labels, colours, marker in parts:
        axis.scatter(*points.T, c=[colours[label] for label in labels], s=14, marker=marker, linewidths=1)
