"""Speed, drawn: ratios to the peers, and how time and memory grow."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dmlrc.report import charts, style, svg
from dmlrc.report.speed.page import FITTED

LOOKS = {
    "retrieval": style.Style(style.BLUE),
    "histogram": style.Style(style.ORANGE),
    "everything": style.Style(style.RED, "s"),
    "proposal": style.Style(style.GREEN),
    "study": style.Style(style.PURPLE, "D"),
}


def peers_figure(peers: pd.DataFrame) -> Figure:
    """Draw each part's speed as a multiple of its peer's (`page.peers`), sorted, on a logarithmic axis."""
    peers = peers.sort_values("ratio").reset_index(drop=True)
    figure, axis = charts.panel(3.2, xlabel="comparisons, sorted", ylabel="times as fast as the peer")
    colours = [style.BLUE if ratio >= 1 else style.RED for ratio in peers["ratio"]]
    dots = axis.scatter(peers.index + 1, peers["ratio"], s=14, color=colours)
    svg.tips(dots, [f"{row.what} / {row.peer}: {row.ratio:.2f} times as fast" for row in peers.itertuples()])
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set_yscale("log")
    return figure


def growth_figure(times: pd.DataFrame, exponents: pd.Series) -> list[Figure]:
    """Seconds and megabytes (`page.growth`) of evaluation by images; of a proposal by trials, of a study by workers."""
    of_images, (seconds, memory) = _stacked()
    of_searches, (proposal, study) = _stacked()
    for task, part in times.groupby("task", sort=False):
        look = LOOKS[task]
        label = f"{FITTED[task]}, exponent {exponents[task]:.1f}" if task in exponents else task
        axis = {"proposal": proposal, "study": study}.get(task, seconds)
        axis.plot(part["size"], part["seconds"], color=look.colour, marker=look.marker, label=label)
        if part["megabytes"].notna().any():
            memory.plot(part["size"], part["megabytes"], color=look.colour, marker=look.marker, label=task)
    seconds.set(xlabel="images", ylabel="CPU seconds", xscale="log", yscale="log")
    memory.set(xlabel="images", ylabel="MB beyond the input", xscale="log", yscale="log")
    proposal.set(xlabel="finished trials", ylabel="CPU s a proposal", xscale="log")
    study.set(xlabel="workers", ylabel="seconds", xscale="log")
    seconds.set_ylim(top=50 * seconds.get_ylim()[1])  # room for the legend
    for axis in (seconds, proposal):
        axis.legend(fontsize=8, loc="upper left")
    sizes = sorted(times["size"][times["task"] == "study"])
    study.set_xticks(sizes, sizes)
    study.minorticks_off()
    return [of_images, of_searches]


def _stacked() -> tuple[Figure, np.ndarray]:
    figure, axes = style.canvas(4.4, 2, gridspec_kw={"height_ratios": [1.5, 1]})
    return figure, axes[:, 0]
