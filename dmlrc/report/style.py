"""How figures look: the canvas, the colours, and how a method is drawn in every figure.

Drawn narrow (4.5 inches) so that the letters can be read on a phone, on white so that they can be read in print
and on a dark page. Colours are those of Okabe and Ito, which the colour-blind tell apart; a method keeps its colour and
marker in every figure: circles are embedding losses, squares classification losses, hollow ones variants.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from dmlrc.records import PRETRAINED
from dmlrc.report import labels
from dmlrc.report.tables import METHODS, Methods

WIDTH = 4.5
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#666666",
)


@dataclass(frozen=True)
class Style:
    """How a method is drawn in every figure."""

    colour: str
    marker: str = "o"
    filled: bool = True

    @property
    def face(self) -> str:
        return self.colour if self.filled else "white"

    @property
    def dashes(self) -> str:
        return "-" if self.marker == "o" else "--"


STYLES = {
    PRETRAINED: Style("black", "X"),
    "contrastive": Style(BLUE),
    "triplet": Style(ORANGE),
    "ntxent": Style(GREEN),
    "proxy_nca": Style(BLUE, "s"),
    "margin": Style(RED),
    "margin_per_class": Style(RED, filled=False),
    "normalized_softmax": Style(ORANGE, "s"),
    "cosface": Style(GREEN, "s"),
    "arcface": Style(RED, "s"),
    "fast_ap": Style(PURPLE),
    "snr": Style(SKY),
    "multi_similarity": Style(GREY),
    "multi_similarity_miner": Style(GREY, filled=False),
    "soft_triple": Style(PURPLE, "s"),
}
DATASETS = {"CUB200": Style(BLUE), "Cars196": Style(RED, "s"), "SOP": Style(GREEN, "D")}
METRICS = {
    "precision_at_1": Style(BLUE),
    "recall_at_4": Style(SKY),
    "r_precision": Style(GREEN),
    "map_at_r": Style(RED),
    "map_at_c": Style(ORANGE, "s"),
    "nmi": Style("black", "D"),
    "f1": Style(PURPLE, "s"),
}


def method_style(method: str) -> Style:
    """A method's style; a method that is none of the paper's is a black star."""
    return STYLES.get(method, Style("black", "*"))


def canvas(height: float, rows: int = 1, columns: int = 1, **settings) -> tuple[Figure, np.ndarray]:
    """A figure of the book's width and this height (inches), and its axes (rows, columns)."""
    sns.set_theme(
        context="paper",
        style="whitegrid",
        rc={
            "font.size": 10,
            "axes.titlesize": 10,
            "axes.labelsize": 10,
            "xtick.labelsize": 9,
            "ytick.labelsize": 9,
            "legend.fontsize": 9,
        },
    )
    return plt.subplots(rows, columns, figsize=(WIDTH, height), layout="constrained", squeeze=False, **settings)


def jitter(positions: ArrayLike) -> np.ndarray:
    """Positions (n,) moved a little, so that points of one place can be told apart; the same ones every time.

    Seaborn's own jitter takes the global random state, and the same numbers would not give the same file.
    """
    places = np.asarray(positions, dtype=float)
    return places + np.random.default_rng(0).uniform(-0.12, 0.12, len(places))


def drawn(name: str) -> str:
    """A name that a user gave, as Matplotlib shows it as it is: dollar signs would make it a formula.

    >>> print(drawn("$a$"))
    \\$a\\$
    """
    return " ".join(name.split()).replace("$", r"\$")


def method_rows(axis: Axes, names: Sequence[str], methods: Methods = METHODS) -> None:
    """Methods down the vertical axis, the first on top."""
    texts = [drawn(labels.method_label(name, methods)) for name in names]
    axis.set(yticks=range(len(names)), yticklabels=texts, ylabel="")
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.xaxis.set_major_locator(MaxNLocator(5))
