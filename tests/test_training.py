"""The trainer: checkpoints, plateau, divergence, every kind of loss."""

import contextlib
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from pytorch_metric_learning import losses as pml_losses

from dmlrc import metrics, models, training
from dmlrc.building import FunctionLoss, build_loss, normalized
from dmlrc.data import batches, splits
from dmlrc.errors import DivergedError, UsageError
from dmlrc.inputs import FeatureSource
from dmlrc.methods import LOSS_WEIGHTS_LR, Level, Method, batch_levels, levels, rows
from dmlrc.papers import musgrave2020, roth2020
from dmlrc.training import optimizers

PROTOCOL = replace(
    musgrave2020.FROZEN, embedding_dim=4, lr=1e-2, momentum=0.0, iterations_per_epoch=10, eval_every=1, max_epochs=6
)
TRIPLET = Method("triplet", "triplet", classes_per_batch=4, images_per_class=4)
PARAMS = {"margin": 0.2}


def members(labels, folds=4):
    made = splits.halves(labels, folds=folds).folds
    return [training.FoldRun(number, 10 + number, fold.train, fold.val) for number, fold in enumerate(made)]


def train(blobs, method=TRIPLET, params=PARAMS, protocol=PROTOCOL, fold=0):
    features, labels = blobs
    source = FeatureSource(features, torch.device("cpu"))

    def make_model():
        return models.EmbeddingModel(models.FeatureTrunk(features.shape[1]), protocol.embedding_dim)

    task = training.Task(method, params, source, labels, make_model, protocol)
    (run,) = training.train([members(labels)[fold]], task)
    return run, source, make_model


def restored(make_model, run):
    model = make_model()
    model.load_state_dict(run.weights)
    return model


def test_the_checkpoint_is_the_best_point_of_the_curve(blobs):
    run, source, make_model = train(blobs)
    best = max(run.curve, key=lambda row: row["map_at_r"])
    assert (run.best_step, run.val["map_at_r"]) == (best["step"], best["map_at_r"])
    member = members(blobs[1])[0]
    embeddings = training.embed_images(restored(make_model, run), source, member.val)
    again = metrics.evaluate(embeddings, blobs[1][member.val], names=("map_at_r",))
    assert again["map_at_r"] == pytest.approx(run.val["map_at_r"], abs=1e-6)


def test_training_learns(blobs):
    run, source, make_model = train(blobs, protocol=replace(PROTOCOL, max_epochs=15, patience=15))
    test = splits.halves(blobs[1]).test
    torch.manual_seed(10)
    scores = []
    for model in (make_model(), restored(make_model, run)):
        embeddings = training.embed_images(model, source, test)
        scores.append(metrics.evaluate(embeddings, blobs[1][test], names=("map_at_r",))["map_at_r"])
    assert scores[1] > scores[0] + 0.1


def test_the_same_seed_gives_the_same_numbers_and_another_fold_others(blobs):
    first = train(blobs)[0].curve
    assert first == train(blobs)[0].curve
    assert first != train(blobs, fold=1)[0].curve


def test_training_leaves_the_global_random_numbers_alone(blobs):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    train(blobs)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_plateau_stops_the_run(blobs):
    run, _, _ = train(blobs, protocol=replace(PROTOCOL, lr=0.0, patience=2, max_epochs=50))
    assert run.stopped == "plateau"
    assert run.steps == 40  # best after epoch 1, given up once more than 2 epochs have passed


def test_the_limit_is_said_too(blobs):
    assert train(blobs, protocol=replace(PROTOCOL, max_epochs=2))[0].stopped == "limit"


def test_a_batch_keeps_its_size_where_classes_are_few():
    method = Method("m", "triplet", classes_per_batch=32, images_per_class=1)
    assert training.batch_layout(method, 74) == (32, 1)
    assert training.batch_layout(method, 32) == (32, 1)
    assert training.batch_layout(method, 30) == (16, 2)
    assert training.batch_layout(method, 5) == (4, 8)


def fitting(sweep, labels):
    """The levels of a sweep whose batches the training classes have room for."""
    halves, fit, methods = splits.halves(labels, folds=4), [], rows(sweep)
    for method in methods:
        with contextlib.suppress(UsageError):
            training.check_batches(method, PROTOCOL, labels, halves, methods)
            fit.append(method.level)
    return fit


def test_a_level_of_a_sweep_over_layouts_keeps_its_own_or_is_left_out():
    labels = np.repeat(np.arange(32), 12)  # 16 classes to train on, 12 of them in a fold
    drawn = roth2020.SAMPLERS.items()
    samplers = [Level(name, roth2020.drawn((TRIPLET,), *how, batch=32)) for name, how in drawn]
    assert fitting(samplers, labels) == ["spc4", "spc8", "spcr"]  # 16 x 2 would be 8 x 4, which is spc4
    methods = (replace(TRIPLET, classes_per_batch=32, images_per_class=1),)
    assert fitting(levels("dim", (8, 16), methods, "embedding_dim"), labels) == ["dim8", "dim16"]
    assert fitting(batch_levels((8, 32), methods), labels) == ["batch8", "batch32"]  # 8 x 4, and still 32 images


def test_a_sampler_of_ones_own_that_fails_is_named_with_its_line(blobs):
    def fails_at_once(labels, *_):
        raise KeyError("early")

    def fails_later(labels, classes, images, rng):
        yield np.arange(16)
        raise KeyError("late")

    with pytest.raises(UsageError, match=r"the sampler of method 'triplet' fails, line \d+ of \S+py: KeyError: 'late'"):
        train(blobs, replace(TRIPLET, sampler=fails_later))
    early = replace(TRIPLET, sampler=fails_at_once)
    for begin in (
        lambda: train(blobs, early),
        lambda: training.check_batches(early, PROTOCOL, blobs[1], splits.halves(blobs[1], folds=4)),
    ):
        with pytest.raises(UsageError, match=r"the sampler of method 'triplet' fails, .*KeyError: 'early'"):
            begin()


def exploding(embeddings, labels, scale=1.0):
    return (embeddings * torch.nan).sum() if scale > 0.5 else embeddings.sum() * 0


def test_a_diverged_run_says_so_and_has_no_checkpoint(blobs):
    run, _, _ = train(blobs, Method("exploding", exploding, classes_per_batch=4), {"scale": 1.0})
    assert (run.state, run.stopped, run.weights) == ("diverged", "diverged", None)
    assert "NaN" in run.reason


def test_a_rate_that_overflows_is_a_divergence_not_an_error(blobs):
    run, _, _ = train(blobs, protocol=replace(PROTOCOL, lr=1e38))
    assert run.state == "diverged"


def test_embeddings_too_large_for_the_metrics_are_a_divergence_not_an_error(blobs):
    """They are finite, and so may be the loss: lifted structure and others are not normalised."""

    class Pushing(torch.nn.Module):
        normalized = False

        def forward(self, embeddings, labels):
            return -(embeddings / embeddings.detach().abs().max()).sum()

    method = Method("pushing", Pushing, classes_per_batch=4)
    run, _, _ = train(blobs, method, {}, replace(PROTOCOL, lr=1e17, weight_decay=0))
    assert run.state == "diverged"
    assert "1e+15" in run.reason
    squares = torch.tensor([[3e-30, 4e-30]])
    assert metrics.out_of_range(models.l2_normalize(squares)) == "hold numbers below 1e-15 alone"  # their length is 0


def my_triplet(embeddings, labels, margin=0.1):
    return build_loss(TRIPLET, {"margin": margin}, 6, 4)(embeddings, labels)


@pytest.mark.parametrize(
    "method",
    [
        Method("function", my_triplet, classes_per_batch=4),
        Method("class", pml_losses.TripletMarginLoss, classes_per_batch=4),
    ],
    ids=lambda method: method.name,
)
def test_functions_and_package_losses_are_methods_too(blobs, method):
    ours, theirs = train(blobs)[0], train(blobs, method)[0]
    assert ours.val["map_at_r"] == pytest.approx(theirs.val["map_at_r"], abs=1e-3)


def test_a_ready_module_is_copied_for_each_run(blobs):
    shared = pml_losses.ProxyNCALoss(num_classes=6, embedding_size=4)
    before = shared.proxies.detach().clone()
    method = Method("ready", shared, settings={}, classes_per_batch=6, images_per_class=2)
    train(blobs, method, {LOSS_WEIGHTS_LR: 0.1})
    assert torch.equal(shared.proxies, before)


def test_the_weights_of_a_loss_learn_at_their_own_rate(blobs, monkeypatch):
    made = []

    def remember(*arguments):
        made.append(build_loss(*arguments))
        return made[-1]

    monkeypatch.setattr(training, "build_loss", remember)
    method = Method("proxies", "proxy_nca", classes_per_batch=6, images_per_class=1)
    moved = []
    for rate in (0.0, 0.1):
        train(blobs, method, {"softmax_scale": 1.0, LOSS_WEIGHTS_LR: rate}, replace(PROTOCOL, weight_decay=0.0))
        moved.append(made[-1].proxies.detach())
    assert not torch.allclose(moved[0], moved[1], atol=1e-2)


def test_unnormalised_losses_train_and_validate_on_unnormalised_embeddings(blobs):
    lengths = []

    class Lengths(torch.nn.Module):
        normalized = False

        def forward(self, embeddings, labels):
            lengths.append(embeddings.norm(dim=1))
            return embeddings.square().mean()

    method = Method("lengths", Lengths, classes_per_batch=4)
    train(blobs, method, {})
    assert not torch.allclose(lengths[0], torch.ones(16), atol=0.1)
    assert not normalized(method)
    assert not normalized(Method("lifted", "lifted_structure"))
    assert normalized(TRIPLET)


@pytest.mark.parametrize("value", [1.0, torch.ones(3, requires_grad=True), torch.ones(())], ids=str)
def test_a_loss_that_is_no_scalar_of_the_embeddings_is_named(blobs, value):
    with pytest.raises(UsageError, match=r"'odd' returned .* must return a scalar tensor"):
        train(blobs, Method("odd", lambda embeddings, labels: value, classes_per_batch=4), {})


def test_unknown_hyperparameters_are_named():
    with pytest.raises(UsageError, match="'triplet' has no parameter 'marginn'"):
        build_loss(TRIPLET, {"marginn": 1.0}, 6, 4)
    with pytest.raises(UsageError, match="'mine' cannot be called"):
        build_loss(Method("mine", my_triplet), {"power": 2}, 6, 4)
    with pytest.raises(UsageError, match="ready module"):
        build_loss(Method("ready", pml_losses.TripletMarginLoss()), {"margin": 2}, 6, 4)


def test_embedding_nan_weights_is_an_error(blobs):
    _, source, make_model = train(blobs)
    model = make_model()
    model.embedder.weight.data.fill_(torch.nan)
    with pytest.raises(DivergedError, match="NaN"):
        training.embed_images(model, source, np.arange(5))


# What the other papers' protocols add

FIXED = replace(PROTOCOL, folds=0, max_epochs=4, iterations_per_epoch=5, optimizer="sgd", weight_decay=0.0, lr=0.1)
SOFTMAX = Method("softmax", "normalized_softmax", classes_per_batch=4, images_per_class=2)


class Trunk(torch.nn.Module):
    """A trunk with weights, on features."""

    out_features = 8

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(10, 8)

    def forward(self, features):
        return self.layer(features).relu()


def train_trunk(blobs, protocol, method=SOFTMAX, targets=None):
    """One run on the whole first half; returns it with the model and the loss as they were left."""
    features, labels = blobs
    made = []

    def make_model():
        made.append(models.EmbeddingModel(Trunk(), protocol.embedding_dim))
        return made[-1]

    (fold,) = splits.halves(labels, folds=0).folds
    member = training.FoldRun(0, 3, fold.train, fold.val, targets)
    source = FeatureSource(features, torch.device("cpu"))
    (run,) = training.train([member], training.Task(method, {}, source, labels, make_model, protocol))
    return run, made[-1]


@pytest.mark.parametrize("sampler", ["class_balanced", "greedy_coreset", "distribution_matching", "frechet"])
def test_embeddings_that_are_no_numbers_end_a_run_as_diverged_whatever_chooses_the_batches(blobs, sampler):
    breaks = Method("breaks", exploding, sampler=sampler, classes_per_batch=4, images_per_class=4)
    run, _ = train_trunk(blobs, replace(FIXED, lr=1e30, new_lr=1e30), breaks)
    assert (run.state, run.weights) == ("diverged", None)


def test_without_validation_the_last_weights_count(blobs):
    run, model = train_trunk(blobs, FIXED)
    assert (run.stopped, run.best_step, run.steps, run.val) == ("limit", 20, 20, {})
    assert all(torch.equal(run.weights[name], value) for name, value in model.state_dict().items())
    assert [set(row) for row in run.curve] == [{"step", "loss"}] * 4


def test_an_epoch_is_what_the_training_images_fill(blobs):
    run, _ = train_trunk(blobs, replace(FIXED, iterations_per_epoch=None, max_epochs=1))
    assert run.steps == 8 * 12 // 8  # 8 classes of 12 images, batches of 8


def test_warming_up_trains_all_but_the_trunk(blobs):
    trunk, embedder = {}, {}
    for epochs in (0, 2):
        _, model = train_trunk(blobs, replace(FIXED, warmup_epochs=epochs, max_epochs=0))
        trunk[epochs], embedder[epochs] = model.trunk.layer.weight, model.embedder.weight
        assert model.trunk.layer.weight.requires_grad
    assert torch.equal(trunk[0], trunk[2])
    assert not torch.equal(embedder[0], embedder[2])
    _, trained = train_trunk(blobs, replace(FIXED, warmup_epochs=2, max_epochs=1))
    assert not torch.equal(trained.trunk.layer.weight, trunk[2])


@pytest.fixture
def made_optimizers(monkeypatch):
    """The optimiser of every run."""
    made, real = [], optimizers.create_optimizer
    monkeypatch.setattr(optimizers, "create_optimizer", lambda *settings: made.append(real(*settings)) or made[-1])
    return made


def test_rates_of_trunk_embedder_and_loss_and_their_steps(blobs, made_optimizers):
    protocol = replace(FIXED, lr=0.1, new_lr=0.5, loss_weight_decay=0.0, weight_decay=0.01, lr_steps=(1, 3))
    train_trunk(blobs, replace(protocol, max_epochs=2))
    groups = made_optimizers[-1].param_groups
    assert [group["lr"] for group in groups] == pytest.approx([0.01, 0.05, 0.05])
    assert [group["weight_decay"] for group in groups] == [0.01, 0.01, 0.0]
    train_trunk(blobs, protocol, replace(SOFTMAX, settings={LOSS_WEIGHTS_LR: 2.0}))
    rates = [group["lr"] for group in made_optimizers[-1].param_groups]
    assert rates == pytest.approx([0.001, 0.005, 0.02])


def test_a_method_may_have_a_weight_decay_of_its_own(blobs, made_optimizers):
    train_trunk(blobs, replace(FIXED, weight_decay=0.1, momentum=0.9), replace(SOFTMAX, weight_decay=0.0))
    groups = made_optimizers[-1].param_groups
    assert {(group["weight_decay"], group["momentum"]) for group in groups} == {(0.0, 0.9)}


def test_a_method_may_have_an_optimiser_of_its_own(blobs, made_optimizers):
    train_trunk(blobs, FIXED, replace(SOFTMAX, optimizer="rmsprop"))
    assert {type(optimizer).__name__ for optimizer in made_optimizers} == {"RMSprop"}


@pytest.mark.parametrize("sampler", ["greedy_coreset", "distribution_matching", "frechet"])
def test_the_memory_bank_follows_the_training(blobs, sampler, monkeypatch):
    seen = []
    monkeypatch.setattr(batches.FromMemory, "update", lambda self, at, values: seen.append((self, at, values.copy())))
    run, _ = train_trunk(blobs, replace(FIXED, sampler=sampler, max_epochs=1))
    assert len(seen) == run.steps
    bank, positions, values = seen[0]
    assert bank.memory.shape == (96, 4)
    # with no step taken yet, the first batch's embeddings are those that the bank began with
    assert np.allclose(bank.memory[positions], values, atol=1e-6)
    assert not np.allclose(bank.memory[seen[-1][1]], seen[-1][2], atol=1e-6)


def test_meta_classes_are_what_the_loss_sees(blobs, monkeypatch):
    seen = []

    class Seen(torch.nn.Module):
        def __init__(self, num_classes):
            super().__init__()
            seen.append(num_classes)

        def forward(self, embeddings, labels):
            seen.append(set(labels.tolist()))
            return embeddings.sum()

    targets = np.repeat([7, 9], 48)
    train_trunk(blobs, FIXED, Method("seen", Seen, classes_per_batch=2), targets)
    assert seen[0] == 2
    assert set().union(*seen[1:]) == {0, 1}


def test_train_metrics_join_the_curve(blobs):
    run, _, _ = train(blobs, protocol=replace(PROTOCOL, train_metrics=("jsd", "mean_positive"), max_epochs=2))
    assert set(run.curve[0]) == {"step", "loss", "map_at_r", "precision_at_1", "train_jsd", "train_mean_positive"}
    assert run.val == {name: run.curve[run.best_step // 10 - 1][name] for name in ("map_at_r", "precision_at_1")}


def test_a_last_step_that_overflows_is_a_divergence_too(blobs):
    run, _ = train_trunk(blobs, replace(FIXED, lr=1e38, iterations_per_epoch=1, max_epochs=1))
    assert (run.state, run.weights) == ("diverged", None)


# Rates


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 1e-2)])
def test_rmsprop_is_torchs_to_the_bit(momentum, decay):
    values, gradients = torch.randn(2, 5, 7), torch.randn(20, 2, 5, 7)
    gradients[:, 1, 2] = 0  # without decay nothing is known of these weights but 0 / (0 + 1e-8)
    ours, theirs = ([values[0].clone(), values[1].clone()] for _ in range(2))
    groups = [{"params": ours[:1], "lr": 0.1}, {"params": ours[1:], "lr": 0.01}]
    made = optimizers.create_optimizer("rmsprop", [group | {"weight_decay": decay} for group in groups], momentum)
    for weight in theirs:
        weight.requires_grad_()
    groups = [{"params": theirs[:1], "lr": 0.1}, {"params": theirs[1:], "lr": 0.01}]
    judge = torch.optim.RMSprop(groups, weight_decay=decay, momentum=momentum)
    for step, pair in enumerate(gradients):
        for weights in (ours, theirs):
            weights[0].grad, weights[1].grad = pair[0].clone(), pair[1].clone() if step > 3 else None
        made.step()
        judge.step()
        assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))
    assert not torch.equal(ours[1], values[1])


def test_rates_fall_in_steps_or_along_a_line():
    steps = replace(FIXED, lr_steps=(1, 3))
    assert [training.rate_factor(steps, epoch) for epoch in range(1, 6)] == pytest.approx([1, 0.1, 0.1, 0.01, 0.01])
    line = replace(FIXED, lr_decay="linear", max_epochs=4)
    assert [training.rate_factor(line, epoch) for epoch in range(1, 6)] == pytest.approx([1, 0.75, 0.5, 0.25, 0])
    with pytest.raises(UsageError, match="lr_decay 'cosine'"):
        training.rate_factor(replace(FIXED, lr_decay="cosine"), 1)


def test_a_loss_of_ones_own_that_fails_in_training_is_told_in_one_sentence(blobs, monkeypatch):
    def fails(embeddings, labels):
        return embeddings[labels + 1000].sum()

    with pytest.raises(UsageError, match=r"method 'mine' fails on a batch of .* line \d+ of test_training.py: Index"):
        train_trunk(blobs, FIXED, Method("mine", fails, classes_per_batch=4))
    monkeypatch.setattr(training, "build_loss", lambda *given: FunctionLoss(fails, {}))
    with pytest.raises(IndexError):  # in one of the library it is a mistake of ours, whose trace is wanted
        train_trunk(blobs, FIXED, SOFTMAX)


def test_linear_decay_reaches_the_optimiser(blobs, made_optimizers):
    train_trunk(blobs, replace(FIXED, lr=0.4, new_lr=0.8, lr_decay="linear", max_epochs=4))
    assert [group["lr"] for group in made_optimizers[-1].param_groups] == pytest.approx([0.1, 0.2])  # trunk, all else


@pytest.mark.parametrize("rates", [{"lr": 0.3}, {"lr": 0.3, LOSS_WEIGHTS_LR: 2.0}], ids=str)
def test_a_searched_rate_stands_for_the_protocols_rates(blobs, made_optimizers, rates):
    features, labels = blobs
    source = FeatureSource(features, torch.device("cpu"))
    (fold,) = splits.halves(labels, folds=0).folds
    protocol = replace(FIXED, lr=0.1, new_lr=0.5, max_epochs=1)
    task = training.Task(SOFTMAX, rates, source, labels, lambda: models.EmbeddingModel(Trunk(), 4), protocol)
    training.train([training.FoldRun(0, 3, fold.train, fold.val)], task)
    found = [(group["lr"], len(group["params"])) for group in made_optimizers[-1].param_groups]
    assert found == ([(0.3, 4), (2.0, 1)] if LOSS_WEIGHTS_LR in rates else [(0.3, 5)])  # equal ones are one group


# Side by side


def train_all(blobs, folds, method=TRIPLET, params=PARAMS, protocol=PROTOCOL):
    features, labels = blobs
    source = FeatureSource(features, torch.device("cpu"))

    def make_model():
        return models.EmbeddingModel(models.FeatureTrunk(features.shape[1]), protocol.embedding_dim)

    return training.train(folds, training.Task(method, params, source, labels, make_model, protocol))


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
@pytest.mark.parametrize("method", [TRIPLET, SOFTMAX], ids=lambda method: method.name)
def test_folds_trained_side_by_side_are_what_they_are_alone(blobs, method, optimizer):
    protocol = replace(PROTOCOL, optimizer=optimizer, patience=1, max_epochs=8, iterations_per_epoch=None)
    folds = members(blobs[1])[:3]
    folds[1] = replace(folds[1], train=folds[1].train[: len(folds[1].train) // 2])  # an epoch half as long
    params = PARAMS if method is TRIPLET else {}
    together = train_all(blobs, folds, method, params, protocol)
    alone = [train_all(blobs, [fold], method, params, protocol)[0] for fold in folds]
    assert len({run.steps for run in together}) > 1
    for both in zip(together, alone, strict=True):
        first, second = (
            {name: value for name, value in vars(run).items() if name not in ("seconds", "weights")} for run in both
        )
        assert first == second
        assert all(torch.equal(value, both[1].weights[name]) for name, value in both[0].weights.items())


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot flush subnormal numbers")
def test_flushing_numbers_below_the_normal_ones_changes_no_score(blobs):
    method = Method("arcface", "arcface", classes_per_batch=4, images_per_class=4)  # 160 x a cosine: exp(-320) < 1e-38
    curves = []
    for flushed in (False, True):
        torch.set_flush_denormal(flushed)
        try:
            curves.append(train(blobs, method, {"margin": 15, "scale": 160})[0].curve)
        finally:
            torch.set_flush_denormal(False)
    for kept, flushed in zip(*curves, strict=True):
        assert kept == pytest.approx(flushed, rel=1e-5)


def test_the_run_that_diverges_is_the_last_of_those_that_finished(blobs):
    folds = members(blobs[1])[:3]

    class Exploding(torch.nn.Module):
        made = 0

        def __init__(self):
            super().__init__()
            self.steps, self.number = 0, Exploding.made
            Exploding.made += 1

        def forward(self, embeddings, labels):
            self.steps += 1
            return embeddings.sum() * (torch.nan if self.number == 1 and self.steps > 45 else 0)

    protocol = replace(PROTOCOL, lr=0.0, weight_decay=0.0, patience=2, max_epochs=50)
    runs = train_all(blobs, folds, Method("exploding", Exploding, classes_per_batch=4), {}, protocol)
    assert [run.state for run in runs] == ["complete"] * 3  # all have been on a plateau since step 40
    Exploding.made = 0
    runs = train_all(
        blobs, folds, Method("exploding", Exploding, classes_per_batch=4), {}, replace(protocol, patience=4)
    )
    assert [(run.fold, run.state) for run in runs] == [(1, "diverged")]
    assert "NaN" in runs[0].reason


def test_the_seconds_of_the_folds_are_shares_of_one_time(blobs):
    started = time.perf_counter()
    runs = train_all(blobs, members(blobs[1]))
    assert 0 < sum(run.seconds for run in runs) <= time.perf_counter() - started


@pytest.mark.parametrize("name", ["SGD", "adadelta"])
def test_an_optimiser_that_nobody_knows_is_refused(name):
    with pytest.raises(UsageError, match=f"unknown optimizer '{name}'"):
        optimizers.create_optimizer(name, [], 0.9)


def test_a_part_that_is_one_class_cannot_be_scored():
    labels = np.repeat(np.arange(5), 4)
    parts = splits.Splits(
        (splits.Fold(np.arange(8), np.arange(8, 16)),), np.arange(16, 20), np.arange(16), np.arange(5)
    )
    with pytest.raises(UsageError, match="the test classes are one class alone"):
        training.check_pairs(labels, parts, validates=True)
