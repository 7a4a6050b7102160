"""A reader's own studies, of studies.toml: what they may say, what comes along, and what is said of mistakes."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from cases import loop
from factories import made_up_unit
from PIL import Image
from typer.testing import CliRunner

from dmlrc import cli, plan, records, studies
from dmlrc.errors import DmlrcError, UsageError
from dmlrc.report import missing
from dmlrc.studies import adapted, experiments, own, tuned

ROOT = Path(__file__).parents[2]
PHOTOS = """
[photos]
like = "glyphs-smoke"
dataset = "folder:{folder}"
seed = 3
class_order = "random"
"""


@pytest.fixture
def photos(home):
    """24 classes of 4 pictures, each class a grey of its own, as studies.toml has them."""
    for label in range(24):
        folder = home / "pictures" / f"{label:02}"
        folder.mkdir(parents=True)
        for place in range(4):
            Image.new("L", (28, 28), color=10 * label + place).save(folder / f"{place}.png")
    (home / "studies.toml").write_text(PHOTOS.format(folder=home / "pictures"))
    return home


def test_nothing_is_own_without_the_file():
    assert studies.own_studies() == {}
    assert studies.known() == studies.STUDIES


def test_an_own_study_changes_what_it_says_and_keeps_the_rest(photos):
    mine, base = studies.get("photos"), studies.get("glyphs-smoke")
    assert mine.dataset == f"folder:{photos / 'pictures'}"
    assert (mine.seed, mine.class_order) == (3, "random")
    assert (mine.protocol, mine.methods, mine.budget) == (base.protocol, base.methods, base.budget)
    assert "photos" not in studies.STUDIES


def test_the_other_papers_come_along_on_its_data_with_its_seed(photos):
    found = experiments.experiments_around("photos")
    assert found.keys() == experiments.experiments_around("glyphs-smoke").keys()
    assert {each.dataset for each in found.values()} == {f"folder:{photos / 'pictures'}"}
    assert {each.seed for name, each in found.items() if not name.startswith("oi2021")} == {3}
    assert found["oi2021"].seed == experiments.experiments_around("glyphs-smoke")["oi2021"].seed + 3
    orders = {name: each.class_order for name, each in found.items() if each.class_order != "random"}
    assert orders == {"oi2021": "default"}  # what varies the order has its own; all others test on its test classes
    assert "photos" not in experiments.around()
    assert "photos-roth2020" in experiments.around()


def test_every_methods_table_can_be_changed_also_at_another_budget(home):
    for like in ("first-runs/grocery-frozen", "cub200-musgrave2020"):
        (home / "studies.toml").write_text(f'[mine]\nlike = "{like}"\nbudget = "quick"\n')
        assert studies.get("mine").budget.name == "quick"
        assert studies.get("mine").protocol == studies.get(like).protocol
    assert (
        experiments.experiments_around("mine") == {}
    )  # a paper's own trunk: the experiments of the others have their own studies


def test_a_budget_in_numbers_folds_and_the_time_that_follows(home):
    numbers = "folds = 2\ntrials = 20\nreruns = 5\nrepetitions = 2\n"
    (home / "studies.toml").write_text(f'[mine]\nlike = "grocery-quick"\n{numbers}')
    mine, base = studies.get("mine"), studies.get("grocery-quick")
    assert mine.budget == replace(base.budget, trials=20, reruns=5)
    assert (mine.protocol, mine.repetitions) == (replace(base.protocol, folds=2), 2)
    # 2 x 14 x 25 units and the untrained trunk, 2 folds, 100 steps of 1.2 ms and 4 evaluations of 60 ms, on 2 cores
    assert mine.expected == f"{own.duration(701 * 2 * (0.12 + 0.24) / 2)}, 2 cores" == "4 minutes, 2 cores"
    (home / "studies.toml").write_text('[mine]\nlike = "cub200-musgrave2020"\n')
    assert studies.get("mine").expected == "as cub200-musgrave2020: hundreds of GPU hours, not measured"


def test_a_budget_below_the_one_that_it_names_is_called_so_and_the_experiments_keep_theirs(home):
    budgets = {
        'like = "grocery-frozen"\ntrials = 2\nreruns = 1\n': "below full",
        'like = "grocery-frozen"\nreruns = 2\n': "below full",
        'like = "grocery-frozen"\ntrials = 100\n': "full",
        'like = "grocery-frozen"\nbudget = "quick"\ntrials = 2\n': "below quick",
        'like = "grocery-quick"\ntrials = 10\nreruns = 5\n': "quick",
    }
    for keys, name in budgets.items():
        (home / "studies.toml").write_text(f"[mine]\n{keys}")
        assert studies.get("mine").budget.name == name
        around, whole = experiments.experiments_around("mine"), name.removeprefix("below ")
        assert {each.budget.name for key, each in around.items() if key != "after2019"} == {whole}
        assert around["after2019"].budget.name == name  # which is searched as the table is


def test_another_trunk_comes_with_its_own_weights(home):
    (home / "studies.toml").write_text('[mine]\nlike = "first-runs/grocery-frozen"\ntrunk = "resnet50"\n')
    mine, base = studies.get("mine").protocol, studies.get("first-runs/grocery-frozen").protocol
    assert mine == replace(base, trunk="resnet50", weights="imagenet")
    assert {each.protocol.trunk for each in experiments.experiments_around("mine").values()} == {"resnet50"}
    (home / "studies.toml").write_text('[mine]\nlike = "glyphs-quick"\ntrunk = "resnet18"\n')
    assert studies.get("mine").protocol.weights is None
    (home / "studies.toml").write_text(
        '[mine]\nlike = "cub200-2010-depths/squeezenet-last-block"\ntrunk = "squeezenet1_0"\n'
    )
    assert (
        studies.get("mine").protocol == studies.get("cub200-2010-depths/squeezenet-last-block").protocol
    )  # the same, spelled out
    for key in ("train_from", "weights"):
        (home / "studies.toml").write_text(f'[mine]\nlike = "cub200-2010-depths/squeezenet-last-block"\n{key} = ""\n')
        with pytest.raises(UsageError, match=f"{key} of study 'mine' is empty: leave it out"):
            studies.get("mine")


def test_a_trunk_of_timm_with_weights_and_a_size_of_its_own(home):
    mine = '[mine]\nlike = "first-runs/grocery-frozen"\ntrunk = "timm:tf_efficientnet_lite0"\nweights = "package"\n'
    (home / "studies.toml").write_text(mine)
    base = studies.get("first-runs/grocery-frozen").protocol
    assert studies.get("mine").protocol == replace(
        base, trunk="timm:tf_efficientnet_lite0", weights="package", image_size=253, crop_size=224
    )  # the size is timm's; 253: 256 * 224 / 227
    (home / "studies.toml").write_text(f"{mine}crop_size = 128\n")
    assert studies.get("mine").protocol.crop_size == 128
    (home / "studies.toml").write_text('[mine]\nlike = "first-runs/grocery-frozen"\nweights = "mine.pth"\n')
    assert studies.get("mine").protocol == replace(base, weights="mine.pth")


def test_from_which_layer_on_a_trunk_trains(home):
    mine = '[mine]\nlike = "cub200-2010-depths/squeezenet-last-block"\n'
    lite0 = 'trunk = "timm:tf_efficientnet_lite0"\nweights = "package"\ncrop_size = 112\n'
    (home / "studies.toml").write_text(f'{mine}train_from = "features.10"\n')
    base = studies.get("cub200-2010-depths/squeezenet-last-block").protocol
    assert studies.get("mine").protocol == replace(base, train_from="features.10")
    (home / "studies.toml").write_text(f'{mine}{lite0}train_from = "blocks.6"\n')
    assert (studies.get("mine").protocol.trunk, studies.get("mine").protocol.train_from) == (
        "timm:tf_efficientnet_lite0",
        "blocks.6",
    )
    (home / "studies.toml").write_text(mine + lite0)
    with pytest.raises(UsageError, match=r"features.12 on, and timm:tf_efficientnet_lite0 has other layers: name one"):
        studies.get("mine")
    for like, how in (("grocery-frozen", "none does"), ("glyphs-quick", "all of it does")):
        (home / "studies.toml").write_text(f'[mine]\nlike = "{like}"\ntrain_from = "features.12"\n')
        with pytest.raises(
            UsageError, match=f"in '{like}' {how}: leave it out, or be like 'cub200-2010-depths/squeezenet-last-block'"
        ):
            studies.get("mine")


def test_a_folder_gets_the_batches_that_the_smallest_set_gets(home):
    (home / "studies.toml").write_text('[mine]\nlike = "first-runs/grocery-frozen"\ndataset = "folder:pictures"\n')
    rows = [each.name for each in experiments.experiments_around("mine")["zhai2019/samples"].methods]
    assert rows == [
        each.name for each in experiments.experiments_around("first-runs/grocery-frozen")["zhai2019/samples"].methods
    ]
    (home / "studies.toml").write_text('[mine]\nlike = "first-runs/grocery-frozen"\ndataset = "cub200"\n')
    assert len(experiments.experiments_around("mine")["zhai2019/samples"].methods) > len(rows)
    assert adapted.RATES_OF == ("first-runs/grocery-frozen", "glyphs-quick")  # rates are judged around these alone
    assert not any(name.endswith("rates") for name in studies.known() if name.startswith("mine"))


def test_experiments_around_an_own_table_have_rates_between_those_that_the_grids_chose(home):
    (home / "studies.toml").write_text('[mine]\nlike = "grocery-frozen"\n[short]\nlike = "grocery-quick"\n')
    for main, rates in (("mine", (3e-4, 3e-4, 1e-2, 1e-2)), ("short", (1e-3, 1e-3, 1e-2, 1e-2))):
        around = experiments.experiments_around(main)
        papers = ("roth2020", "fehervari2019", "zhai2019", "oi2021")
        assert tuple(around[paper].protocol.lr for paper in papers) == rates
    for paper, rate in tuned.BETWEEN_THEM.items():
        chosen = [rates[paper] for rates in tuned.RATES.values()]
        assert min(chosen) <= rate <= max(chosen)


def test_it_runs_from_the_command_line_and_is_read_back(photos):
    call = CliRunner().invoke
    assert " no data" not in call(cli.app, ["study", "list"]).output.split("photos ")[1].split("\n")[0]
    result = call(cli.app, ["study", "run", "photos", "--method", "contrastive"])
    assert result.exit_code == 0, result.output
    found = records.load("photos")
    assert found.meta["seed"] == 3
    assert set(found.runs["method"]) >= {"contrastive"}


def test_rows_that_the_data_is_too_small_for_are_left_out_of_its_book(photos, monkeypatch, capsys):
    few = {name: experiments.experiments_around("photos")[name] for name in ("zhai2019/samples", "oi2021")}
    monkeypatch.setattr(experiments, "experiments_around", lambda main: few)
    monkeypatch.setattr(plan, "progress", lambda each: (int(each.name == "photos"), 1))
    missing.run_missing(["photos"], missing.ALL)
    said = capsys.readouterr().err
    rows = [each.name for each in few["zhai2019/samples"].methods]
    named = re.findall(r"photos-zhai2019-samples: (\S+) is left out, a batch of \d+ different ", said)
    assert named
    assert set(named) < set(rows)
    assert set(records.load("photos-zhai2019-samples").runs["method"]) == set(rows) - set(named)
    assert len(records.load("photos-oi2021").runs)


@loop(
    "text, says",
    [
        ("[mine\n", "cannot be read"),
        (f"mine = {'1' * 5000}\n", "cannot be read"),
        (f"mine = {'[' * 5000}\n", "cannot be read"),
        ("[mine]\nseed = 1\n", "does not say what it is like"),
        ("mine = 1\n", "does not say what it is like"),
        ('["my photos"]\nlike = "glyphs-quick"\n', "take a name of letters, digits"),
        (f'[{"a" * 101}]\nlike = "glyphs-quick"\n', "is longer than 100 bytes: take a shorter name"),
        (f'["{"é" * 51}"]\nlike = "glyphs-quick"\n', "is longer than 100 bytes"),
        ('[mine]\nlike = "glyphs-quik"\n', "did you mean 'glyphs-quick'"),
        ('[mine]\nlike = "cub200-roth2020"\n', "unknown like of study 'mine'"),
        ('[mine]\nlike = "glyphs-quick"\nseeds = 1\n', "did you mean 'seed'"),
        ('[mine]\nlike = "glyphs-quick"\nseed = -1\n', "0 or more"),
        (
            '[mine]\nlike = "glyphs-quick"\nlr = "fast"\n',
            "study 'mine': lr of protocol musgrave2020-characters is 'fast'",
        ),
        ('[mine]\nlike = "glyphs-quick"\nembedding_dim = 1.5\n', "is 1.5: it is a whole number or None"),
        ('[mine]\nlike = "glyphs-quick"\nlayer_norm = 1\n', "is 1: it is true or false"),
        ('[mine]\nlike = "glyphs-quick"\nseed = true\n', "0 or more"),
        ('[mine]\nlike = "glyphs-quick"\ndataset = 7\n', "quotation marks"),
        ('[mine]\nlike = "glyphs-quick"\ndataset = "cub20"\n', "did you mean 'cub200'"),
        ('[mine]\nlike = "glyphs-quick"\ntrunk = "resnet"\n', "unknown trunk of study 'mine'"),
        ('[mine]\nlike = "glyphs-quick"\ncrop_size = 0\n', "1 or more"),
        ('[mine]\nlike = "glyphs-quick"\nfolds = 1\n', "2 or more"),
        ('[mine]\nlike = "glyphs-quick"\nsplit = "ratio_4_1_5"\n', "has one fold, not 4: set folds = 1"),
        (f'[mine]\nlike = "glyphs-quick"\nembedding_dim = {10**30}\n', "1 or more, and at most 65,536"),
        (f'[mine]\nlike = "glyphs-quick"\nlr = {10**400}\n', "0 or more, and finite in single precision"),
        ('[mine]\nlike = "glyphs-quick"\nweight_decay = 1e300\n', "0 or more, and finite in single precision"),
        (f'[mine]\nlike = "glyphs-quick"\npatience = {10**400}\n', "0 or more, and finite"),
        ('[mine]\nlike = "glyphs-quick"\nlr_steps = [-1, 3]\n', "they are epochs, from 1"),
        ('[mine]\nlike = "glyphs-quick"\ntrials = 0\n', "1 or more"),
        ('[mine]\nlike = "glyphs-quick"\nbudget = "ful"\n', "did you mean 'full'"),
        ('[mine]\nlike = "glyphs-quick"\nclass_order = "shuffled"\n', "unknown class_order"),
        (
            '[mine]\nlike = "glyphs-quick"\nval_metrics = ["map_at_r", "nmmi"]\n',
            "study 'mine': unknown metric in val_metrics 'nmmi': did you mean 'nmi'",
        ),
        ('[glyphs-quick]\nlike = "glyphs-quick"\n', "choose another"),
        ('[glyphs-quick-seed1]\nlike = "glyphs-quick"\n', "would mix with 'glyphs-quick'"),
        ('[cub200-mine]\nlike = "glyphs-quick"\n', "would mix with 'cub200'"),
        ('[grocery]\nlike = "glyphs-quick"\n', "would mix with 'grocery-frozen"),
        ('[a]\nlike = "glyphs-quick"\n[a-b]\nlike = "glyphs-quick"\n', "would mix with"),
    ],
)
def test_a_mistake_is_named_with_the_file(home, text, says):
    (home / "studies.toml").write_text(text)
    with pytest.raises(UsageError, match=r"studies\.toml") as caught:
        studies.known()
    assert says in str(caught.value)


@pytest.mark.parametrize("page", ["README.md", "book/rerun.md"])
def test_the_pages_show_a_file_that_is_read(home, page):
    text = (ROOT / page).read_text()
    *others, shown = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    for each in (*others, shown):
        (home / "studies.toml").write_text(each)
        mine, *_ = studies.own_studies().values()
        assert re.search(rf"STUDY={mine.name}\n|study run {mine.name} ", text)
    if page == "book/rerun.md":  # the last names every key
        assert {*own.KEYS} <= {*re.findall(r"^(\w+) =", shown, re.MULTILINE)} <= {*own.KEYS, *own.SETTINGS}


def test_any_setting_of_the_protocol_may_be_another(home):
    keys = "embedding_dim = 512\nlr = 1e-4\nlr_steps = [10, 20]\nlayer_norm = true\n"
    (home / "studies.toml").write_text(f'[mine]\nlike = "grocery-frozen"\n{keys}')
    base = studies.get("grocery-frozen").protocol
    changed = replace(base, embedding_dim=512, lr=1e-4, lr_steps=(10, 20), layer_norm=True)
    assert studies.get("mine").protocol == changed


def test_what_is_none_in_python_is_a_word_in_the_file(home):
    keys = {**dict.fromkeys(own.OPTIONAL - {"train_from"}, "none"), "frozen_trunk": False, "augmentation": "none"}
    frozen = own.entry("frozen", {"like": "grocery-quick", "iterations_per_epoch": "none"})
    (home / "studies.toml").write_text(own.entry("mine", {"like": "grocery-quick", **keys}) + frozen)
    assert studies.get("frozen").expected.startswith("as grocery-quick")  # how many steps, the images say
    protocol = studies.get("mine").protocol
    assert [getattr(protocol, name) for name in sorted(own.OPTIONAL)] == [None] * len(own.OPTIONAL)
    assert protocol.augmentation == "none"  # which is a word there


def test_a_number_of_epochs_that_is_asked_for_is_run_whatever_the_budget(home):
    keys = 'like = "grocery-quick"\nmax_epochs = 7\n'
    (home / "studies.toml").write_text(f"[mine]\n{keys}[other]\n{keys}iterations_per_epoch = 99\ntrials = 5\n")
    shown = [studies.get(name).effective_protocol for name in ("grocery-quick", "mine", "other")]
    assert [(each.max_epochs, each.iterations_per_epoch) for each in shown[1:]] == [(7, 25), (7, 99)]
    assert shown[0].max_epochs < 7


def test_settings_on_the_command_line_make_a_study_of_their_own(home, photographs, monkeypatch):
    monkeypatch.setattr("dmlrc.run.run_unit", made_up_unit)
    run = ["study", "run", "glyphs-smoke", "--method", "contrastive", "--set", "embedding_dim=32"]
    call = CliRunner().invoke
    result = call(cli.app, [*run, "--as", "mine"])
    assert result.exit_code == 0, result.output
    assert "study mine: " in result.output
    assert records.load("mine").meta["protocol"]["embedding_dim"] == 32
    assert records.find("glyphs-smoke") is None  # never mixed with the original
    assert (home / "studies.toml").read_text() == '\n[mine]\nlike = "glyphs-smoke"\nembedding_dim = 32\n'
    dates = records.load("mine").trials["finished"].tolist()
    assert call(cli.app, [*run, "--as", "mine"]).exit_code == 0  # goes on: nothing is left to do
    assert records.load("mine").trials["finished"].tolist() == dates
    for more, says in (
        (["--as", "mine", "--set", "lr=1"], "has other settings"),
        (["--as", "glyphs-smoke"], "choose another"),
        (["--as", "other", "--set", "embeding_dim=8"], "did you mean 'embedding_dim'"),
        (["--as", "other", "--set", "lr"], "sets nothing"),
        (["--as", "other", "--set", "=3"], "sets nothing"),
        (["--as", "other", "--set", "lr=1", "--set", "lr =2"], "lr is set twice: give it once"),
        (["--as", "other", "--set", "eval_every=8\nlr=1"], "is '8\\nlr=1'"),
        (["--as", "other", "--set", f"seed={'1' * 5000}"], "seed of study 'other' is"),
        (["--as", "other", "--set", "seed=2026-01-01"], "seed of study 'other' is datetime.date(2026, 1, 1)"),
        (["--as", "other", "--set", "lr=inf"], "study 'other': lr of protocol musgrave2020-characters is inf"),
        (["--as", "other", "--set", "sampler=none"], "study 'other': unknown sampler 'none': known are"),
        (
            ["--as", "other", "--set", "optimizer=adamm"],
            "study 'other': unknown optimizer 'adamm': did you mean 'adam'",
        ),
        ([], "--as names it"),
    ):
        found = call(cli.app, [*run, *more])
        assert isinstance(found.exception, UsageError), (more, found.output)
        assert says in str(found.exception)
    assert "other" not in (home / "studies.toml").read_text()
    (home / "studies.toml").write_text("x = 1\n")
    found = call(cli.app, ["study", "run", "x", "--set", "lr=1", "--as", "y"])
    assert "does not say what it is like" in str(found.exception)


@pytest.mark.parametrize(
    ("like", "settings", "says"),
    [
        ("glyphs-smoke", ["trunk=timm:nope", "crop_size=28"], "unknown trunk 'timm:nope'"),
        ("glyphs-smoke", ["weights=typo.pth"], "no weight file at typo.pth"),
        ("glyphs-smoke", ["weights=imagenet"], "conv4 has no ImageNet weights"),
        ("grocery-quick", ["trunk=resnet18", "crop_size=224"], "use data set 'grocery', the photographs"),
    ],
)
def test_a_trunk_that_there_is_not_enters_no_study(home, like, settings, says):
    """Or the corrected command would be refused: there would be a study of this name."""
    with pytest.raises(DmlrcError, match=says):
        studies.enter_changed(like, settings, "mine")
    assert not (home / "studies.toml").exists()
