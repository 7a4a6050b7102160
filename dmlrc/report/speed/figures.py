"""Speed, drawn: ratios to the peers, and how time and memory grow."""

import pandas as pd
from matplotlib.figure import Figure

from dmlrc.report import style
from dmlrc.report.speed.page import FITTED

LOOKS = {
    "retrieval": style.Style(style.BLUE),
    "histogram": style.Style(style.ORANGE),
    "everything": style.Style(style.RED, "s"),
    "proposal": style.Style(style.GREEN),
    "study": style.Style(style.PURPLE, "D"),
}


def peers_figure(found: pd.DataFrame) -> Figure:
    """How many times as fast as the peer each part is, on a logarithmic axis. found: `page.peers`."""
    found = found.sort_values("ratio", ascending=False)
    figure, axes = style.canvas(0.8 + 0.17 * len(found))
    axis = axes[0, 0]
    colours = [style.BLUE if ratio >= 1 else style.RED for ratio in found["ratio"]]
    axis.barh(range(len(found)), found["ratio"] - 1, left=1, color=colours, height=0.7)
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set(xscale="log", xlabel="times as fast as the peer", ylim=(len(found) - 0.4, -0.6))
    axis.set_yticks(range(len(found)), found["what"], fontsize=7)
    return figure


def growth_figure(found: pd.DataFrame, exponents: pd.Series) -> Figure:
    """Seconds and megabytes of evaluation by images, of a proposal by trials, of a study by workers; logarithmic axes.

    found: `page.growth`; exponents: `page.exponents`, which stand in the legend.
    """
    figure, axes = style.canvas(7.6, 4, gridspec_kw={"height_ratios": [1.4, 1.1, 1, 1]})
    seconds, memory, proposal, study = axes[:, 0]
    for task, part in found.groupby("task", sort=False):
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
    for axis in (seconds, proposal):
        axis.legend(fontsize=8)
    sizes = sorted(found["size"][found["task"] == "study"])
    study.set_xticks(sizes, sizes)
    study.minorticks_off()
    return figure
