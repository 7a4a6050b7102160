"""Speed as the page prints it: cells of tables, and sentences with their numbers."""

from collections.abc import Sequence
from importlib.resources import files

import numpy as np
import pandas as pd

from dmlrc.report import labels
from dmlrc.report.method.notes import OTHERS, SHOWN

MEASUREMENTS = files("dmlrc.report") / "measurements"
FITTED = {
    "retrieval": "P@1, R-precision and MAP@R",
    "histogram": "the histograms of all pairs",
    "everything": "all metrics without k-means",
    "proposal": "a proposal of a search",
}
"""What grows by a power, and what it is called; a study gets shorter with its workers."""
AS_FAST = 1.01
"""A part and its peer are as fast as one another up to this ratio."""
BARE_SEARCH, ALL_CORES = "faiss.knn alone", ", all cores"
"""A peer, and the note on a part, that a GPU does not have."""


def peers(file: str = "peers") -> pd.DataFrame:
    """Each part beside its peer: what, peer, ours_ms, peer_ms, ratio (above 1: ours is faster), load, machine, ...

    file: "peers", on a CPU, or "peers-gpu".
    """
    texts = dict.fromkeys(("commit", "torch", "pytorch_metric_learning"), str)
    found = pd.read_csv(MEASUREMENTS / f"{file}.csv", dtype=texts)
    return found.assign(what=found["what"].map(named))


def on_a_gpu() -> pd.DataFrame:
    """`peers` on a GPU."""
    return peers("peers-gpu")


_LABELS = {loss: note.label for note in OTHERS.values() for loss in note.losses}
_LABELS |= {name: method.label for name, method in SHOWN.items()}


def named(what: str) -> str:
    """A part as printed: a loss by its label, or by its words where no page is about it.

    >>> named("loss proxy_nca_pp, 32 x 128"), named("step ntxent, 32 x 512 -> 128"), named("loss tuplet_margin, 8 x 8")
    ('loss ProxyNCA++, 32 × 128', 'step NTXent, 32 × 512 → 128', 'loss Tuplet margin, 8 × 8')
    """
    kind, _, rest = what.partition(" ")
    if kind in ("loss", "step"):
        name, _, sizes = rest.partition(", ")
        what = f"{kind} {_LABELS.get(name, name.replace('_', ' ').capitalize())}, {sizes}"
    return what.replace(" x ", " × ").replace(" -> ", " → ")


def growth() -> pd.DataFrame:
    """Seconds and megabytes by size: task, unit, size, seconds, megabytes, load, cores, machine, date, commit."""
    return pd.read_csv(MEASUREMENTS / "growth.csv", dtype={"commit": str})


def peer_cells(found: pd.DataFrame) -> pd.DataFrame:
    """`peers` as cells: a row a part."""
    cells = pd.DataFrame(
        {
            "Part": found["what"],
            "peer": found["peer"],
            "ours, ms": found["ours_ms"].map("{:,.2f}".format),
            "peer, ms": found["peer_ms"].map("{:,.2f}".format),
            "times as fast": found["ratio"].map("{:.2f}".format),
        }
    )
    return cells.set_index("Part")


def peers_sentence(found: pd.DataFrame) -> str:
    """How many parts are faster than their peers, or as fast within a hundredth, in a sentence. found: `peers`."""
    ratio = found["ratio"]
    same = int(ratio.between(1 / AS_FAST, AS_FAST).sum())
    return (
        f"Our part is faster than its peer in {(ratio > AS_FAST).sum()} of {len(ratio)} comparisons"
        f"{f', as fast in {same}' * (same > 0)}; the median ratio is {ratio.median():.1f}."
    )


def extremes_sentence(found: pd.DataFrame) -> str:
    """The slowest and the fastest part beside its peer, in a sentence. found: `peers`."""
    found = found.sort_values("ratio")
    slow, fast = found.iloc[0], found.iloc[-1]
    return (
        f"Furthest behind its peer: {slow['what']} ({slow['ratio']:.2f} times as fast as {slow['peer']}); furthest "
        f"ahead: {fast['what']} ({fast['ratio']:.0f} times as fast as {fast['peer']})."
    )


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """b of values ~ size^b, by least squares in the logarithms, over the larger half of the sizes.

    >>> round(exponent([10, 20, 40, 80], [7, 7, 12, 48]), 6)
    2.0
    """
    first = min(len(sizes) // 2, len(sizes) - 2)
    return float(np.polyfit(np.log(sizes[first:]), np.log(values[first:]), 1)[0])


def exponents() -> pd.Series:
    """The `exponent` of the seconds of each task of FITTED."""
    found = {}
    for task, part in growth().groupby("task", sort=False):
        if task in FITTED and len(part) > 2:
            part = part.sort_values("size")
            found[task] = exponent(part["size"].to_numpy(), part["seconds"].to_numpy())
    return pd.Series(found, dtype=float)


def largest_sentence() -> str:
    """What the scores of the largest set cost."""
    found = growth()
    largest = found[found["task"] == "retrieval"].sort_values("size").iloc[-1]
    return (
        f"P@1, R-precision and MAP@R of {largest['size']:,} images take {largest['seconds']:.0f} seconds of one core "
        f"and {largest['megabytes']:,.0f} MB beyond the embeddings."
    )


def growth_sentence() -> str:
    """How each task grows, and what more workers bring, in a few sentences."""
    found, fitted = growth(), exponents()
    grown = ", ".join(f"{FITTED[task]} with exponent {value:.1f}" for task, value in fitted.items())
    text = f"Over the larger half of the sizes, time grows as a power of the size: {grown}."
    workers = found[found["task"] == "study"].set_index("size")["seconds"]
    if len(workers) > 1:
        cores, best = int(found["cores"].max()), workers.idxmin()
        text += (
            f" On {cores} cores a small study is {workers.iloc[0] / workers[best]:.1f} times as fast with {best} "
            "workers as with one; the start of the workers is included."
        )
    return text


def unmeasured_sentence() -> str:
    """Which parts were measured on a CPU alone, in a sentence; empty where none."""
    on_cpu = peers()
    on_cpu = on_cpu[on_cpu["peer"] != BARE_SEARCH]
    alone = list(dict.fromkeys(on_cpu["what"].str.removesuffix(ALL_CORES)))
    alone = [what for what in alone if what not in set(on_a_gpu()["what"])]
    if not alone:
        return ""
    return f"Not measured there, since its time was short: {'; '.join(alone)}."


def beside_cpu_sentence() -> str:
    """How long a training step takes on a GPU and on one core of a CPU, in a sentence; of the steps that both did."""
    there, here = (
        found[found["what"].str.startswith("step ")].set_index("what")["ours_ms"] for found in (on_a_gpu(), peers())
    )
    both = there.index.intersection(here.index)
    if both.empty:
        return ""
    slower = (there[both] > here[both]).sum()
    return (
        f"A step of a frozen study takes {labels.span(there[both], '{:.1f}'.format)} ms on this GPU and "
        f"{labels.span(here[both], '{:.1f}'.format)} ms of one core of the CPU above: {slower} of {len(both)} are "
        "slower on the GPU, so such a study is better run on a CPU."
    )


def where(found: pd.DataFrame) -> str:
    """The machine, versions and commit of measurements, and whether it was busy. found: `peers` or `growth`."""
    device = found["device"].iloc[0] if "device" in found else "cpu"
    machines = ", ".join(found["machine"].unique())
    versions = [f"torch {', '.join(found['torch'].unique())}"] if "torch" in found else []
    if "pytorch_metric_learning" in found:
        versions.append(f"pytorch-metric-learning {', '.join(found['pytorch_metric_learning'].unique())}")
    load = found["load"].max()
    busy = f" Other work was under way, up to {load:.1f} processes at a time, which disturbs time on the clock most."
    return (
        f"Measured on {machines if device == 'cpu' else f'{device}, beside {machines},'}"
        f"{f' with {labels.listed(versions)}' if versions else ''}, at commit {', '.join(found['commit'].unique())} "
        f"({', '.join(found['date'].unique())}).{busy if load > 1 else ''}"
    )
