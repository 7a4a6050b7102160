"""Oi, Kawakami, Naemura: Analysis of Evaluation Metrics with the Distance between Positive Pairs and Negative Pairs in
Deep Metric Learning. 2021.

Expected (Table 1; Recall@1, MAP@R, JSD): Cars196 in default order 0.673, 0.168, 0.439, in random order 0.721, 0.226,
0.472; CUB200 0.481, 0.164, 0.401 and 0.659, 0.260, 0.579.
Commands: `dmlrc study run cub200-oi2021`, `cub200-oi2021/random`; the same for cars196.

One method, fixed settings; the checkpoint is the best of 20 epochs by validation MAP@R (the paper: by each score).
Section 4. Not in the paper, and ours: the batch (32 images), weight decay (AdamW's default) and the number of reruns.
Images are resized to 299 x 299 ahead of the random crop, the paper's after it.
"""

from dmlrc.methods import LOSS_WEIGHTS_LR, fixed_method
from dmlrc.protocol import Protocol

_SCORES = ("precision_at_1", "map_at_r", "jsd", "mean_positive", "mean_negative")

PROTOCOL = Protocol(
    name="oi2021",
    paper="oi2021",
    trunk="inception_v3",
    weights="imagenet",
    frozen_trunk=False,
    embedding_dim=64,
    image_size=299,
    crop_size=299,
    augmentation="crop",
    crop_scale=(1 / 8, 1.0),
    crop_ratio=(3 / 4, 4 / 3),
    optimizer="adamw",
    lr=1e-4,
    weight_decay=0.01,
    momentum=0.0,
    folds=1,
    iterations_per_epoch=None,
    eval_every=1,
    patience=20,
    max_epochs=20,
    split="ratio_4_1_5",
    square="squash",
    sampler="random",
    freeze_batch_norm=False,
    test_metrics=(*_SCORES, "r_precision"),
    val_metrics=_SCORES,  # Figs. 2 and 4
    train_metrics=_SCORES,
    arrays=("histograms",),  # Figs. 1 and 3
)
SEED = 1  # of the random class order

METHODS = (
    fixed_method(
        *("normalized_softmax", "NSL", "normalized_softmax", "wang2017normface", 2017),
        layout=(32, 1),
        temperature=0.1,  # s = 10
        **{LOSS_WEIGHTS_LR: 1e-2},
    ),
)
