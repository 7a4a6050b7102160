"""What is said of a loss before anything trains: what can be wrong with it, and what its author should know."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from cases import loop
from pytorch_metric_learning import losses as pml

from dmlrc import losses, preflight, records, run, studies
from dmlrc.errors import UsageError
from dmlrc.methods import LOSS_WEIGHTS_LR, Choice, Float, Int, Method

SMOKE = studies.STUDIES["glyphs-smoke"]
STUDY = replace(SMOKE, budget=replace(SMOKE.budget, trials=1))


def good(embeddings, labels, margin=0.1):
    same = labels[:, None] == labels[None]
    similar = embeddings @ embeddings.T
    return (similar[~same] + margin).relu().mean() - similar[same].mean()


class Weighted(torch.nn.Module):
    def __init__(self, num_classes, embedding_dim, scale=1.0):
        super().__init__()
        self.weights, self.scale = torch.nn.Parameter(torch.randn(num_classes, embedding_dim)), scale

    def forward(self, embeddings, labels):
        return torch.nn.functional.cross_entropy(self.scale * embeddings @ self.weights.T, labels)


def test_a_sound_loss_needs_no_word():
    assert preflight.check_method(Method("mine", good, {"margin": Float(0, 1)}), STUDY) == []
    assert preflight.check_method(Method("mine", good), STUDY) == []


def fails(embeddings, labels):
    return embeddings[labels.max() + 1000].sum()  # the line that fails


LINE = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "# the line that fails" in text)


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (lambda embeddings, labels: None, "returned nothing: it must return a scalar"),
        (lambda embeddings, labels: 0.5, "returned a float"),
        (lambda embeddings, labels: embeddings.sum(1), r"returned a tensor of shape \(32,\)"),
        (lambda embeddings, labels: embeddings.detach().sum(), "that no gradient goes through"),
        (lambda embeddings, labels: embeddings.sum() * torch.nan, "NaN or infinite on every batch"),
        (lambda embeddings, labels: (embeddings - embeddings).sum().log(), "NaN or infinite on every batch"),
        (fails, rf"fails on a batch of 8 x 4 embeddings of 128 numbers, line {LINE} of test_preflight.py: IndexError"),
        (lambda embeddings, labels, power: embeddings.sum(), "cannot be called: missing a required argument: 'power'"),
        (lambda embeddings: embeddings.sum(), "cannot be called: too many positional arguments"),
        (pml.RankedListLoss, "cannot be made: .*'margin' and 'Tn'. .* give them in the method's space or settings"),
        (lambda embeddings, labels: sys.exit(0), "fails on a batch of .*: SystemExit: 0"),
        (3, "must be a name, a function, a class or a module"),
        ("contrastiv", "did you mean 'contrastive'"),
    ],
)
def test_what_cannot_train_is_refused(loss, says):
    with pytest.raises(UsageError, match=says) as refused:
        preflight.check_method(Method("mine", loss), STUDY)
    assert "\n" not in str(refused.value)


def test_a_table_that_is_too_small_for_the_classes_that_train_is_refused():
    """Of 186 classes the first half is for 4 folds, of 23 classes each: 70 train."""

    def looks_up(size):
        table = torch.ones(size)
        return Method("mine", lambda embeddings, labels: good(embeddings, labels) * table[labels].mean())

    assert preflight.check_method(looks_up(70), STUDY) == []
    with pytest.raises(UsageError, match=r"fails on a batch of 8 x 4 .* of test_preflight.py: IndexError"):
        preflight.check_method(looks_up(69), STUDY)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("calls = 0\ndef loss(x, labels):\n    global calls\n    calls += 1\n    return x.sum()", "calls"),
        (
            "def loss(x, labels):\n    global last\n    last = float(x.detach().sum())\n    return x.sum() - last",
            "last",
        ),
        ("def loss(x, labels, seen=[]):\n    seen.append(1)\n    return x.sum()", "a default or an enclosed value"),
    ],
)
def test_a_loss_that_changes_its_own_file_is_refused(source, what):
    exec(source, scope := {"__name__": "file_mine"})
    mine = Method("mine", scope["loss"])
    for check in (preflight.check_method, lambda mine, study: run.run(replace(study, name="mine", methods=(mine,)))):
        with pytest.raises(UsageError, match=f"changes {what} of its own file when it is called.*inside a class"):
            check(mine, STUDY)


@loop(
    "source",
    [
        "import numpy as np\ndef loss(x, y):\n    return x[np.random.default_rng().permutation(32)[:9]].sum()",
        "import torch\nG = torch.Generator()\ndef loss(x, y):\n    return (x * torch.rand(x.shape, generator=G)).sum()",
    ],
)
def test_a_loss_whose_chance_is_not_seeded_is_refused(source):
    """A generator of its file would go on where it was in one process, and begin anew in each worker."""
    exec(source, scope := {"__name__": "file_mine"})
    with pytest.raises(UsageError, match=r"gives other numbers from the same seeds: .* numpy.random or random"):
        preflight.check_method(Method("mine", scope["loss"]), STUDY)


READS = {
    "at a call": "def loss(x, y):\n    return x.sum() * float(FILE.read_text())",
    "when it is made": "class loss:\n    def __init__(self):\n        self.scale = np.loadtxt(FILE)\n"
    "    def __call__(self, x, y):\n        return x.sum() * float(self.scale)",
    "as code": "def loss(x, y):\n    return x.sum() * eval(compile(FILE.read_text(), 'scale', 'eval'))",
    "a name put together": "def loss(x, y):\n    return x.sum() * importlib.import_module(NAME).SCALE",
    "a path": "def loss(x, y):\n    return x.sum() * runpy.run_path(str(HOME / 'late_of_mine.py'))['SCALE']",
}


@loop("way", READS)
def test_a_loss_that_reads_a_file_is_refused_each_time(way, tmp_path, monkeypatch):
    (tmp_path / "scale.txt").write_text("2")
    (tmp_path / "late_of_mine.py").write_text("SCALE = 2")
    monkeypatch.syspath_prepend(tmp_path)
    head = f"import importlib, pathlib, runpy\nimport numpy as np\nHOME = pathlib.Path({str(tmp_path)!r})\n"
    head += "FILE, NAME = HOME / 'scale.txt', '_'.join(['late', 'of', 'mine'])\n"
    exec(head + READS[way], scope := {"__name__": "file_mine"})
    for _ in range(2):
        with pytest.raises(UsageError, match=r"reads .*(scale.txt|late_of_mine.py) when it is made or called"):
            preflight.check_method(Method("mine", scope["loss"]), STUDY)
    assert "late_of_mine" not in sys.modules


@loop(
    "source",
    [
        "SCALE = float(open(FILE).read())\ndef loss(x, y):\n    return x.sum() * SCALE",
        "def loss(x, y):\n    open(FILE, 'a').close()\n    return x.sum() + 0 * len(open('/etc/hosts').read())",
        "import functools, torch\n@functools.singledispatch\ndef kind(x):\n    pass\n"
        "kind.register(torch.Tensor, torch.sum)\ndef loss(x, y):\n    return kind(x)",
        "import warnings\ndef loss(x, y):\n    warnings.warn('hm')\n    return x.sum()",
    ],
)
@pytest.mark.filterwarnings("ignore:hm")
def test_a_loss_that_reads_nothing_of_ones_own_passes(source, tmp_path):
    (tmp_path / "scale.txt").write_text("2")
    exec(f"FILE = {str(tmp_path / 'scale.txt')!r}\n{source}", scope := {"__name__": "file_mine"})
    assert preflight.check_method(Method("mine", scope["loss"]), STUDY) == []


def test_a_compiled_loss_passes():
    scope = {"__name__": "file_mine"}
    exec("import torch\n@torch.compile(backend='eager')\ndef loss(x, y):\n    return x.sum()", scope)
    assert preflight.check_method(Method("mine", scope["loss"]), STUDY) == []


def test_a_sampler_whose_chance_is_not_seeded_is_refused():
    def of(generator):
        def batches(labels, classes, images, given):
            while True:
                yield (generator or given).permutation(len(labels))[: classes * images]

        return replace(SMOKE.methods[0], name="mine", sampler=batches)

    assert not preflight.too_small(STUDY, [of(None), of(np.random)], named=True)
    for generator in (np.random.default_rng(), np.random.default_rng(0)):
        with pytest.raises(UsageError, match="sampler of method 'mine' gives other batches from the same seeds"):
            preflight.too_small(STUDY, [of(generator)], named=True)


def test_a_hyperparameter_that_the_loss_does_not_have_is_refused():
    with pytest.raises(UsageError, match="got an unexpected keyword argument 'margn'"):
        preflight.check_method(Method("mine", good, {"margn": Float(0, 1)}), STUDY)
    with pytest.raises(UsageError, match="margn"):
        preflight.check_method(Method("mine", Weighted, {"margn": Float(0, 1)}), STUDY)


def test_every_choice_is_tried():
    def loss(embeddings, labels, distance):
        return embeddings.sum() * {"cosine": 1.0, "dot": float("nan"), "euclidean": 2.0}[distance]

    (said,) = preflight.check_method(Method("mine", loss, {"distance": Choice(("cosine", "dot", "euclidean"))}), STUDY)
    assert "infinite at the middle of its space and distance = 'dot'" in said
    with pytest.raises(UsageError, match="KeyError: 'taxi'"):
        preflight.check_method(
            Method("mine", loss, {"distance": Choice(("cosine", "euclidean", "taxi", "cosinus"))}), STUDY
        )


def test_what_is_broken_somewhere_is_said():
    root = Method("mine", lambda embeddings, labels, x: embeddings.sum() * torch.tensor(x).log(), {"x": Float(0, 1)})
    (said,) = preflight.check_method(root, STUDY)
    assert "NaN or infinite at the lower ends of its space" in said


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (lambda embeddings, labels: 0 * embeddings.sum(), "'mine' trains nothing: its gradient is 0"),
        (lambda embeddings, labels: (embeddings.sum() - 1e9).relu(), "'mine' trains nothing"),
        (lambda embeddings, labels: (embeddings - embeddings).norm(dim=1).pow(0.5).sum(), "or its gradient, is NaN"),
    ],
)
def test_a_loss_whose_gradient_is_zero_or_nan_is_refused(loss, says):
    with pytest.raises(UsageError, match=says):
        preflight.check_method(Method("mine", loss), STUDY)


@pytest.mark.parametrize(
    "idle",
    [
        Method("idle", lambda embeddings, labels, x: 0 * embeddings.sum(), {"x": Float(0, 1)}),
        Method("idle", "triplet", classes_per_batch=16, images_per_class=1),  # no positive pair in any batch
    ],
)
def test_a_study_run_from_python_refuses_a_loss_without_gradient_too(idle):
    with pytest.raises(UsageError, match="'idle' trains nothing"):
        run.run(replace(STUDY, name="mine", methods=(idle,)))
    assert records.find("mine") is None or "idle" not in set(records.load("mine").trials["method"])


def test_a_loss_of_pairs_passes_on_batches_of_any_images():
    def apart(embeddings, labels):  # 0 where no two are of one class
        same = (labels[:, None] == labels).fill_diagonal_(False)
        return (torch.cdist(embeddings, embeddings) * same).sum()

    alone = Method("mine", apart, classes_per_batch=16, images_per_class=1)
    preflight.check_method(replace(alone, sampler="random"), SMOKE)
    with pytest.raises(UsageError, match="'mine' trains nothing"):
        preflight.check_method(alone, SMOKE)


def test_a_search_of_nothing_is_said():
    (said,) = preflight.check_method(Method("mine", lambda embeddings, labels: embeddings.sum()), SMOKE)
    assert f"its space is empty, so that all {SMOKE.budget.trials} trials of a search are one setting" in said


def test_a_rate_of_own_weights_that_is_not_searched_is_said_with_the_usual_range():
    (said,) = preflight.check_method(Method("mine", Weighted, classes_per_batch=4), STUDY)
    assert "it has weights of its own" in said
    assert f"stays that of the embedder, {STUDY.protocol.lr:g}" in said
    assert "LOSS_WEIGHTS_LR, from 1e-06 to 1 in logarithms" in said
    assert preflight.check_method(Method("mine", Weighted, {LOSS_WEIGHTS_LR: Float(1e-6, 1, log=True)}), STUDY) == []


def test_it_is_called_at_both_ends_and_in_the_middle(capsys):
    def loss(embeddings, labels, a, b, c):
        print(a, b, c)
        return embeddings.sum()

    preflight.check_method(
        Method("mine", loss, {"a": Float(0, 2), "b": Float(0.01, 1, log=True), "c": Int(1, 6)}), STUDY
    )
    seen = [tuple(map(float, line.split())) for line in capsys.readouterr().out.splitlines()]
    assert [tuple(round(x, 9) for x in each) for each in dict.fromkeys(seen)] == [(0, 0.01, 1), (1, 0.1, 4), (2, 1, 6)]


@pytest.mark.parametrize("name", ["contrastive", "soft_triple", "lifted_structure"])
def test_the_losses_of_the_library_pass(name):
    method = Method("mine", name, {LOSS_WEIGHTS_LR: Float(1e-6, 1, log=True)})
    assert preflight.check_method(method, STUDY) == []
    assert name in losses.REGISTRY


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (Method("mine", "contrastiv"), "unknown loss 'contrastiv': did you mean 'contrastive'"),
        (Method("mine", "contrastive", {"margin": Float(0, 1)}), "loss 'contrastive' has no parameter 'margin'"),
        (Method("mine", "contrastive", settings={"pos_margin": "x"}), "pos_margin of loss 'contrastive' is 'x'"),
        (Method("mine", 3), "must be a name, a function, a class or a module"),
        (Method("pretrained", "contrastive"), "that is the row of the untrained trunk"),
    ],
)
def test_a_loss_that_is_misspelt_is_told_before_anything_is_computed(method, says):
    with pytest.raises(UsageError, match=says):
        preflight.check_names(SMOKE, [method])
