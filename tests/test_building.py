"""Building the losses of methods: every loss of pytorch-metric-learning as it is, and what their constructors take."""

import functools
import inspect

import pytest
import torch
from cases import loop
from pytorch_metric_learning import losses as pml

from dmlrc import building, losses
from dmlrc.building import build_loss, constructor_parameters, normalized
from dmlrc.errors import UsageError
from dmlrc.methods import Float, Method

NO_LOSSES = {
    "BaseLossWrapper",
    "BaseMetricLossFunction",
    "EmbeddingRegularizerMixin",
    "GenericPairLoss",
    "WeightRegularizerMixin",
}
"""Classes of the module that others are made of."""
WITHOUT_LABELS = {"ManifoldLoss", "SelfSupervisedLoss", "VICRegLoss"}
"""These compare two views of an image, or points of a manifold, and take no labels: they are no rows of this study."""
SETTINGS = {"RankedListLoss": {"margin": 0.4, "Tn": 10.0}}
WRAPPERS = {
    "CrossBatchMemory": functools.partial(pml.CrossBatchMemory, pml.NTXentLoss()),
    "MultipleLosses": functools.partial(pml.MultipleLosses, [pml.NTXentLoss(), pml.TripletMarginLoss()]),
}
CLASSES = {name: each for name, each in vars(pml).items() if inspect.isclass(each)}
LABELS = torch.arange(8).repeat_interleave(4)


@loop("name", sorted(CLASSES.keys() - NO_LOSSES - WITHOUT_LABELS))
def test_every_loss_of_pytorch_metric_learning_is_a_method(name):
    method = Method("pml", WRAPPERS.get(name, CLASSES[name]), settings=SETTINGS.get(name, {}))
    loss = build_loss(method, {}, num_classes=8, embedding_dim=16)
    embeddings = torch.nn.functional.normalize(torch.randn(32, 16), dim=1).requires_grad_()
    value = loss(embeddings, LABELS)
    assert value.ndim == 0
    value.backward()
    assert embeddings.grad.abs().sum() > 0
    for weight in loss.parameters():  # a row or a column of weights for each class, or several
        assert 16 in weight.shape


def test_the_list_of_classes_is_that_of_the_package():
    assert CLASSES.keys() > NO_LOSSES | WITHOUT_LABELS | SETTINGS.keys() | WRAPPERS.keys()
    assert len(CLASSES) > 40


def test_hyperparameters_reach_a_constructor_through_its_bases():
    method = Method("pml", pml.SubCenterArcFaceLoss, {"margin": Float(1, 60)}, {"sub_centers": 2})
    loss = build_loss(method, {"margin": 30.0}, num_classes=8, embedding_dim=16)
    assert loss.W.shape == (16, 16)  # 8 classes of 2 sub-centres
    assert loss.margin == pytest.approx(torch.pi / 6)


def test_what_a_constructor_takes():
    class Base:
        def __init__(self, num_classes, depth=1):
            pass

    class Open(Base):
        def __init__(self, *args, margin=0.1, **kwargs):
            pass

    class Closed(Base):
        def __init__(self, margin):
            pass

    class Silent(Open):
        pass

    assert list(constructor_parameters(Open)) == ["margin", "num_classes", "depth"]
    assert list(constructor_parameters(Silent)) == ["margin", "num_classes", "depth"]
    assert list(constructor_parameters(Closed)) == ["margin"]


def test_a_partial_of_a_class_is_constructed_anew_for_each_run():
    method = Method("pml", WRAPPERS["CrossBatchMemory"])
    first, second = (build_loss(method, {}, 8, 16) for _ in range(2))
    assert first.loss is not second.loss
    first(torch.nn.functional.normalize(torch.randn(32, 16), dim=1), LABELS)
    assert first.embedding_memory.abs().sum() > second.embedding_memory.abs().sum() == 0


def test_a_partial_of_an_unnormalised_loss_is_unnormalised_too():
    assert not normalized(Method("mine", functools.partial(losses.NPairs, l2_weight=0.1)))
    assert normalized(Method("mine", functools.partial(losses.Contrastive, neg_margin=0.5)))
    assert normalized(Method("mine", functools.partial(pml.ContrastiveLoss, neg_margin=0.5)))


def test_a_class_of_the_library_checks_its_batches_as_its_name_does():
    loss = build_loss(Method("class", losses.REGISTRY["proxy_nca"]), {}, num_classes=8, embedding_dim=16)
    embeddings = torch.nn.functional.normalize(torch.randn(32, 16), dim=1)
    with pytest.raises(UsageError, match="made for classes 0 to 7"):
        loss(embeddings, LABELS + 1)


def test_a_constructor_that_lacks_something_says_what():
    with pytest.raises(UsageError, match=r"cannot be made: .*margin.*Tn.*space or settings"):
        build_loss(Method("pml", pml.RankedListLoss), {}, 8, 16)


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("/tmp/ipykernel_417/1666122311.py", "its cell"),
        ("<ipython-input-11-044a509cabbf>", "its cell"),
        ("/home/me/my_loss.py", "my_loss.py"),
    ],
)
def test_a_cell_of_a_notebook_is_named_as_its_author_knows_it(file, named):
    code = compile("def loss(embeddings, labels):\n    raise ValueError('no')", file, "exec")
    exec(code, space := {})
    with pytest.raises(ValueError, match="no") as raised:
        space["loss"](None, None)
    assert building.cause(raised.value) == f", line 2 of {named}: ValueError: no"
