"""Speed of the parts beside named peers, and growth with size: as measured by `benchmarks/` and committed."""

from collections.abc import Sequence
from importlib.resources import files

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dmlrc.report import charts, prose, style, svg
from dmlrc.report.method.notes import OTHERS, SHOWN

MEASUREMENTS = files("dmlrc.report") / "measurements"
FITTED = {
    "retrieval": "P@1, R-precision and MAP@R",
    "histogram": "the histograms of all pairs",
    "everything": "all metrics without k-means",
    "proposal": "a proposal of a search",
}
"""What grows by a power, and what it is called; a study gets shorter with its workers."""
FACTS = ("machine", "device", "torch", "pytorch_metric_learning", "commit", "date")
LIBRARY = "pytorch-metric-learning"
"""In the names of the peers that are its."""
PEER_CELLS = {"peer": "peer", "ours_ms": "ours, ms", "peer_ms": "peer, ms", "ratio": "times as fast"}
"""`peers` as printed (`labels.cells`)."""
LOOKS = {
    "retrieval": style.Style(style.BLUE),
    "histogram": style.Style(style.ORANGE),
    "everything": style.Style(style.RED, "s"),
    "proposal": style.Style(style.GREEN),
    "study": style.Style(style.PURPLE, "D"),
}
"""The colours and marks of `growth`."""
_LABELS = {loss: note.label for note in OTHERS.values() for loss in note.losses}
_LABELS |= {name: method.label for name, method in SHOWN.items()}


def peers(file: str = "peers") -> pd.DataFrame:
    """Each part beside its peer, in file: what, peer, ours_ms, peer_ms, ratio (above 1: ours is faster), load, ..."""
    texts = dict.fromkeys(("commit", "torch", "pytorch_metric_learning"), str)
    times = pd.read_csv(MEASUREMENTS / f"{file}.csv", dtype=texts)
    return times.assign(what=times["what"].map(_part_label))


def _part_label(what: str) -> str:
    """A part as printed: a loss by its label, or by its words where no page is about it.

    >>> _part_label("loss proxy_nca_pp, 32 x 128"), _part_label("step ntxent, 32 x 512 -> 128")
    ('loss ProxyNCA++, 32 × 128', 'step NTXent, 32 × 512 → 128')
    """
    kind, _, rest = what.partition(" ")
    if kind in ("loss", "step"):
        name, _, sizes = rest.partition(", ")
        what = f"{kind} {_LABELS.get(name, name.replace('_', ' ').capitalize())}, {sizes}"
    return what.replace(" x ", " × ").replace(" -> ", " → ")


def growth() -> pd.DataFrame:
    """Seconds and megabytes by size: task, unit, size, seconds, megabytes, load, cores, machine, date, commit."""
    return pd.read_csv(MEASUREMENTS / "growth.csv", dtype={"commit": str})


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """b of values ~ size^b, by least squares in the logarithms, over the larger half of the sizes.

    >>> round(exponent([10, 20, 40, 80], [7, 7, 12, 48]), 6)
    2.0
    """
    first = min(len(sizes) // 2, len(sizes) - 2)
    return float(np.polyfit(np.log(sizes[first:]), np.log(values[first:]), 1)[0])


def exponents() -> pd.Series:
    """The `exponent` of the seconds of each task of FITTED."""
    by_task = {}
    for task, part in growth().groupby("task", sort=False):
        if task in FITTED and len(part) > 2:
            part = part.sort_values("size")
            by_task[task] = exponent(part["size"].to_numpy(), part["seconds"].to_numpy())
    return pd.Series(by_task, dtype=float)


def numbers() -> dict[str, float | str]:
    """The numbers behind the page's text.

    cpu.median: without peers that do a part of the work alone; cpu.least_over_library: to pytorch-metric-learning;
    cpu.slower: those slower than a peer that does all of the work; gpu.scoring: to its evaluation;
    gpu.steps_slower: the share that a CPU core does sooner; workers.two, .most: how many times as fast a study is.
    """
    on_a_cpu, grown, fitted = peers(), growth(), exponents()
    ratio, peer = on_a_cpu["ratio"], on_a_cpu["peer"]
    part = peer.str.endswith(" alone")
    largest = grown[grown["task"] == "retrieval"].sort_values("size").iloc[-1]
    there, here = (
        frame[frame["what"].str.startswith("step ")].groupby("what")["ours_ms"].min()  # each has two peers
        for frame in (peers("peers-gpu"), on_a_cpu)
    )
    scoring = peers("peers-gpu").loc[lambda frame: frame["peer"].str.contains("Calculator"), "ratio"]
    of_study = grown[grown["task"] == "study"].set_index("size")["seconds"]
    faster = of_study.iloc[0] / of_study
    of_images = fitted.drop("proposal")
    return {
        "cpu.median": float(ratio[~part].median()),
        "cpu.least_over_library": float(ratio[peer.str.contains(LIBRARY)].min()),
        "cpu.slower": ", ".join(on_a_cpu["what"][(ratio < 1) & ~part]),
        **prose.span("gpu.scoring", scoring),
        "gpu.steps_slower": float((there > here.reindex(there.index)).mean()),
        "largest.images": f"{largest['size']:,}",
        "largest.seconds": float(largest["seconds"]),
        **prose.span("exponent", of_images),
        "proposal.ms": float(1000 * grown[grown["task"] == "proposal"]["seconds"].max()),
        "workers.two": float(faster[2]),
        "workers.most": float(faster[faster.index > grown["cores"].max()].max()),
    }


def made_on(times: pd.DataFrame) -> dict[str, str]:
    """The machine, versions, commit and date of `peers` or `growth`, and the most processes beside them: texts."""
    facts = {name.replace("_", "-"): ", ".join(times[name].unique()) for name in FACTS if name in times}
    return facts | {"other processes": f"at most {times['load'].max():.1f}"}


# Drawn


def peers_figure(peers: pd.DataFrame) -> Figure:
    """Draw each part's speed as a multiple of its peer's (`peers`), sorted, on a logarithmic axis."""
    peers = peers.sort_values("ratio").reset_index(drop=True)
    figure, axis = charts.panel(3.2, xlabel="comparisons, sorted", ylabel="times as fast as the peer")
    colours = [style.BLUE if ratio >= 1 else style.RED for ratio in peers["ratio"]]
    dots = axis.scatter(peers.index + 1, peers["ratio"], s=14, color=colours)
    svg.tips(dots, [f"{row.what} / {row.peer}: {row.ratio:.2f} times as fast" for row in peers.itertuples()])
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set_yscale("log")
    return figure


def growth_figure(times: pd.DataFrame, exponents: pd.Series) -> list[Figure]:
    """Seconds and megabytes (`growth`) of evaluation by images; of a proposal by trials, of a study by workers."""
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
