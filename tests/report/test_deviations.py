"""The ledgers of deviations: every setting in which a study departs from its paper's protocol has its reason there."""

import re
from dataclasses import asdict

import pytest
from factories import made_records

from dmlrc import papers, studies
from dmlrc.data.available import extent
from dmlrc.report import deviations
from dmlrc.report.deviations import compare

PAPERS = {paper.key: paper.protocol for paper in papers.ALL}


def compared(paper):
    """The studies in a paper's ledger: its methods around each methods table; of the Reality Check these tables."""
    of_paper = [study for study in studies.STUDIES.values() if study.protocol.paper == paper]
    if paper == "musgrave2020":
        return [study for study in of_paper if study.kind == "table"]
    return [study for study in of_paper if study.experiment == paper and study.parent in studies.STUDIES]


def ledger(paper, *names):
    """The ledger of a paper for studies of the catalogue, by setting."""
    found = {name: made_records(name) for name in names}
    for records in found.values():
        records.meta["data"]["classes"] = extent(records.meta["dataset"])[1]
    return deviations.ledger(paper, found).set_index("setting")


def around(paper, *mains):
    """The names of the studies of a paper around methods tables."""
    return mains if paper == "musgrave2020" else [f"{main}/{paper}" for main in mains]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_ledger_says_what_is_stored_in_the_place_of_photographs(paper):
    told = ledger(paper, *around(paper, "cub200-2010-frozen", "cars196crops-frozen", "grocery-frozen"))
    birds, cars, groceries = told.loc["stored images", "ours"].split("; ")
    assert birds.endswith("black borders where the photograph ended")
    assert cars.endswith("the box of each car, squashed to a square, 112 pixels, enlarged")
    assert groceries.endswith("a centre square of each photograph, 112 pixels, enlarged")
    assert "in evaluation too" in told.loc["stored images", "why"]
    if "square" in told.index:
        squares = "CUB-200 (2010): as stored; Cars crops: as stored; Grocery Store: crop"
        assert told.loc["square", ["ours", "the paper's"]].tolist() == [squares, "squash"]


def test_whole_photographs_are_squashed_where_the_paper_squashes_them():
    assert ledger("zhai2019", "cub200-zhai2019").loc["stored images", "ours"] == "each photograph, squashed to a square"


def test_features_are_of_photographs_that_were_stored_too():
    assert "112 pixels, enlarged" in ledger("musgrave2020", "grocery-quick").loc["stored images", "ours"]


@pytest.mark.parametrize("paper", PAPERS)
def test_no_number_of_a_ledger_is_written_as_computers_do(paper):
    told = ledger(paper, *around(paper, "cub200-2010-frozen", "first-runs/cars196crops-frozen", "glyphs-full"))
    assert not re.findall(r"\de[-+]?\d", told.to_string(max_colwidth=None))


@pytest.mark.parametrize(
    ("paper", "setting", "value"),
    [
        ("musgrave2020", "weight_decay", "10⁻⁴"),
        ("musgrave2020", "momentum", "0.9"),
        ("fehervari2019", "weight_decay", "10⁻⁴"),
        ("oi2021", "weight_decay", "0.01"),
    ],
)
def test_what_a_paper_leaves_open_is_told_where_ours_is_our_version_of_its_system_too(paper, setting, value):
    told = ledger(paper, *around(paper, "cars196crops-frozen")).loc[setting]
    assert told[["ours", "the paper's"]].tolist() == [value, f"not given; our version: {value}"]


def test_the_birds_have_the_rate_that_zhai_and_wu_have_on_cub200():
    assert "lr" not in ledger("zhai2019", "cub200-2010-frozen/zhai2019").index
    assert ledger("zhai2019", "grocery-frozen/zhai2019").loc["lr", "the paper's"] == "0.01"


def test_what_a_paper_has_on_two_data_sets_stands_with_its_own_names():
    told = ledger("zhai2019", *around("zhai2019", "cub200-2010-frozen", "cars196crops-frozen", "grocery-frozen"))
    assert told.loc["lr", "the paper's"] == "CUB200: 10⁻³; Cars196: 0.01"


def test_rows_that_concern_one_data_set_stand_with_it_alone():
    told = {name: ledger("musgrave2020", name) for name in ("grocery-frozen", "cub200-2010-frozen", "sop-musgrave2020")}
    found = {
        name: {"batches where classes are few", "search ranges on SOP"} & set(rows.index) for name, rows in told.items()
    }
    assert found == {
        "grocery-frozen": {"batches where classes are few"},
        "cub200-2010-frozen": set(),
        "sop-musgrave2020": {"search ranges on SOP"},
    }
    assert "than a fold trains on" in told["grocery-frozen"].loc["batches where classes are few", "ours"]


def test_batches_in_which_a_rate_was_chosen_are_told_where_they_are_others_than_the_tables():
    row = "batches in which the rate was chosen"
    told = ledger("roth2020", *around("roth2020", "cub200-2010-frozen", "grocery-frozen")).loc[row, "ours"]
    assert told == "Grocery Store: 16 classes x 4 images (table: 32 x 2)"
    assert row not in ledger("roth2020", "cub200-2010-frozen/roth2020", "cub200-roth2020").index


def test_classes_between_the_folds_are_counted():
    row = "classes of the first half that never validate"
    assert row not in ledger("musgrave2020", "cub200-2010-frozen").index
    assert ledger("musgrave2020", "cars196crops-frozen").loc[row, "ours"] == "2 of 98"
    both = ledger("musgrave2020", "cub200-2010-frozen", "cars196crops-frozen")
    assert both.loc[row, "ours"] == "Cars crops: 2 of 98"


def test_the_order_of_crop_and_resizing_is_told_where_images_are_cropped_at_random():
    row = "order of crop and resizing"
    assert "then cropped" in ledger("oi2021", "cub200-oi2021").loc[row, "ours"]
    assert row not in ledger("oi2021", "cub200-2010-frozen/oi2021").index


@pytest.mark.parametrize("paper", PAPERS)
def test_every_setting_that_differs_has_a_reason(paper):
    theirs = asdict(PAPERS[paper])
    found = compared(paper)
    assert len(found) > 5
    for study in found:
        silent = {"name"} if study.protocol.validates else {"name", "patience"}
        ours = asdict(study.effective_protocol)
        differ = {field for field in theirs if ours[field] != theirs[field]}
        assert differ - silent <= set(compare.read_deviations(paper)[0]), study.name
