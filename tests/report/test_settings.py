"""What pages say of settings and cannot guard themselves, and what they say of the output of their cells.

`checks` is for these pages what a cell of guards is for a chapter; `test_sentences.py` takes its sentences for guarded.
"""

import contextlib
import inspect
import io
import re
import tomllib
from functools import cache
from pathlib import Path

import checked_texts
import nbformat
import pytest
from scipy import stats

from benchmarks import coverage, hpo
from dmlrc import cli, papers, records, run, studies
from dmlrc.data.registry import SOURCES
from dmlrc.methods import Method
from dmlrc.papers import musgrave2020
from dmlrc.protocol import FULL
from dmlrc.report import power, tables
from dmlrc.studies import catalogue, experiments, photos

ROOT = Path(__file__).parents[2]


def default(function, name):
    return inspect.signature(function).parameters[name].default


def committed(end):
    """The committed studies whose names end so."""
    paths = ROOT.glob(f"results/**/*{end}/meta.json")
    return [studies.get(path.parent.relative_to(ROOT / "results").as_posix()) for path in paths]


def networks(depth):
    """How many networks are trained to a depth."""
    return len({study.protocol.trunk for study in committed(depth)})


def most_classes(main):
    """The most classes that a batch of the other papers' experiments around a table wants of a data set."""
    around = [(study, each) for study in experiments.experiments_around(main).values() for each in study.methods]
    return max(each.classes_per_batch for study, each in around if (each.sampler or study.protocol.sampler) != "random")


def minutes_of_a_row():
    """A search of ArcFace and its reruns, trial by trial."""
    cost = tables.cost(records.load("grocery-frozen")).loc["arcface"]
    return (cost["search_seconds"] + 3 * cost["seconds"]) / 60


def printed(page, word):
    """What the cell of a page that has a word in its code prints."""
    cells = nbformat.read(ROOT / "notebooks" / f"{page}.ipynb", as_version=4).cells
    [code] = [each.source for each in cells if each.cell_type == "code" and word in each.source]
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(code, {})
    return shown.getvalue()


def percents(page, word):
    return [float(number) for number in re.findall(r"(\d+)%", printed(page, word))]


@cache
def checks():
    """Page -> what it says -> whether that holds, of the records that are committed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLRC_HOME", str(ROOT))
        patch.delenv("DMLRC_RUNS", raising=False)
        return _checks()


def _checks():
    quick, table, method = studies.get("grocery-quick"), studies.get("grocery-frozen"), Method("a", "triplet")
    photographs, whole = 2 * photos._PER_FOLD == 8, "cars196crops-depths/mobilenetv2-whole"
    cut_off = {"»: more than one in twenty runs hit the limit": tables.MOST_CUT_OFF == 1 / 20}
    ranks = re.findall(r"(\d)\s+(\d)$", printed("05_which_losses_differ", "rank_low"), re.MULTILINE)
    own, other = percents("14_oi2021", "families")
    floats, bits = (percents("13_zhai2019", "evaluate_binary")[place::2] for place in (0, 1))
    images, classes = (
        {name: getattr(source, key) for name, source in SOURCES.items()} for key in ("images", "classes")
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        "glossary": {
            "`full` has 50 trials per search": FULL.trials == 50,
            "our studies of depth have 25": {studies.get(name).budget.trials for name in catalogue.DEPTHS} == {25},
            "Photographs of 200 species of birds": classes["cub200_2010"] == 200,
            "half as many images": 0.5 < images["cub200_2010"] / images["cub200"] < 0.52,
            "Photographs of 196 models of cars": classes["cars196crops"] == classes["cars196"] == 196,
            "Characters of 50 alphabets, 20 drawings each": images["omniglot"] == 20 * classes["omniglot"],
            "four of five studies like the table's": power.POWER == 0.8,
            "Of a dozen methods, 0.6 barely differs from 0": 0.03 < 2 * stats.t.sf(0.6 * (10 / 0.64) ** 0.5, 10) < 0.05,
        },
        "rerun": {
            "at least eight classes": photographs,
            "every fold needs four classes": photos._PER_FOLD == 4,
            "Fourteen losses get a short search each (`--trials 10 --reruns 3`)": (
                (len(quick.methods), quick.budget.trials, quick.budget.reruns) == (14, 10, 3)
            ),
            "two for the study on two cores": quick.expected == "2 minutes, 2 cores",
            "The committed row is a mean of three searches": table.repetitions == 3,
            "ten to fifteen on two cores": 10 < minutes_of_a_row() < 15,
            "With fewer than 75 classes in a half": most_classes("cub200-2010-frozen") == 75,
            "we have run none of these": not any(
                (ROOT / "results" / study.name).exists() for study in catalogue._OF_THE_PAPERS
            ),
        },
        "fork": {
            "runs three of its units again": default(cli.board_check, "units") == 3,
            "A batch has `classes_per_batch` classes (8) of `images_per_class` images (4)": (
                (method.classes_per_batch, method.images_per_class) == (8, 4)
            ),
            "`dmlrc study run grocery-quick --workers 2`: two minutes": quick.expected == "2 minutes, 2 cores",
        },
        "scale_out": {
            "is tried three times in all": run.MOST_DEATHS == 3,
            "Then `slurm.scale(14)`, one job a method": len(studies.get("cub200-musgrave2020").methods) == 14,
        },
        "19_all_results": {**cut_off, "are ranked with the fourteen": len(musgrave2020.METHODS) == 14},
        "your_run": cut_off,
        "README": {
            "Five reality checks": len(papers.ALL) == 5,
            "You need Python 3.11 to 3.13": project["requires-python"] == ">=3.11,<3.14",
            "the last block of two networks, half of one": (networks("last-block"), networks("half")) == (2, 1),
            "was run with four losses on one data set": (len({*records.load(whole).reruns["method"]}) == 4),
            "longer runs, on a GPU, were faulty and are to be made again": records.find(f"{whole}-2000") is None,
            "you need at least eight classes": photographs,
        },
        "05_which_losses_differ": {
            "we simulated studies of 5 to 20 losses": (min(coverage.METHODS), max(coverage.METHODS)) == (5, 20),
            "With 2 to 5 searches of each": (min(coverage.SEARCHES), max(coverage.SEARCHES)) == (2, 5),
            "The table has a winner all the same; the ranks say that it means nothing": ranks == [("1", "3")] * 3,
        },
        "13_zhai2019": {
            "Random layers' bits catch up too": (
                floats[0] - bits[0] > 2 * (floats[-1] - bits[-1]) and bits == sorted(bits)
            )
        },
        "14_oi2021": {"Made-up classes of two families show the gain without any training": other > own},
        "22_hpo_benchmark": {"searched the forest ten times, with 50 evaluations": hpo.SEEDS == 10},
        **checked_texts.checks(),
    }


def test_settings_are_those_of_the_code():
    for page, found in checks().items():
        assert [said for said, holds in found.items() if not holds] == [], page
