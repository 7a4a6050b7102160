"""Six losses published after the Reality Check, under its protocol.

Proxy-Anchor (Kim et al., CVPR 2020, arXiv:2003.13911), circle (Sun et al., CVPR 2020, arXiv:2002.10857), SupCon (Khosla
et al., NeurIPS 2020, arXiv:2004.11362), ProxyNCA++ (Teh et al., ECCV 2020, arXiv:2004.01113), Smooth-AP (Brown et al.,
ECCV 2020, arXiv:2007.12163) and the recall@k surrogate (Patel et al., CVPR 2022, arXiv:2108.11179).

Claimed (R@1, 512 dimensions unless it says otherwise): Proxy-Anchor 68.4 on CUB200 and 86.1 on Cars196 (BN-Inception,
Table 2 of its paper); circle 66.7 and 83.4 (BN-Inception, as cited by Park et al. 2026); ProxyNCA++ 72.2 and 90.1
(ResNet50, 2048 dimensions, its abstract); Smooth-AP 80.1 on SOP (ResNet50, Papers With Code); recall@k 82.7 on SOP, and
with mixed samples 88.3 on Cars196 (ResNet50, Papers With Code). SupCon claims nothing on these data sets.
Each has a trunk, a batch and a training of its own; `published.claims_after_2019` has the sources.
Expected here: nothing; no paper has them under this protocol.

The search spaces are ours, not the papers': around the papers' values, and as wide as those of the Reality Check. The
batch is its 32 images: 8 x 4, and 32 x 1 for the losses with proxies. Two papers rest on larger ones: Proxy-Anchor
(69.0 on CUB200 at 180 images, 65.9 at 30) and recall@k (400 to 4000 images). Proxy-Anchor also weighs the positives of
a class against one another, of which these batches have one.
ProxyNCA++ and ProxyNCA are one function with one space; only the length of their proxies at the start differs. Their
difference measures the search, not the loss.

Left out, for it adds none: the threshold-consistent margin loss (TCM; Zhang et al., ICLR 2024, arXiv:2307.04047), which
is the contrastive loss on cosines, with a margin for the positives and one for the negatives.
"""

from dataclasses import replace

from dmlrc.methods import Float
from dmlrc.papers import musgrave2020
from dmlrc.papers.musgrave2020 import classification, embedding

_UNIT = Float(0.0, 1.0)
_SIGMOID = Float(1e-3, 1.0, log=True)
METHODS = (
    classification(
        "proxy_anchor", "Proxy-Anchor", 2020, "kim2020", margin=Float(0.0, 0.5), alpha=Float(1.0, 200.0, log=True)
    ),
    embedding("circle", "Circle", 2020, "sun2020circle", m=_UNIT, gamma=Float(1.0, 512.0, log=True)),
    embedding("supcon", "SupCon", 2020, "khosla2020", temperature=Float(1e-3, 10.0, log=True)),
    classification("proxy_nca_pp", "ProxyNCA++", 2020, "teh2020", softmax_scale=Float(0.01, 100.0)),
    embedding("smooth_ap", "Smooth-AP", 2020, "brown2020", temperature=_SIGMOID),
    replace(
        embedding(
            *("recall_at_k", "Recall@k", 2022, "patel2022"),
            rank_temperature=Float(0.1, 10.0, log=True),
            temperature=_SIGMOID,
        ),
        settings={"max_k": 4},  # four images a class leave three positives
    ),
)

KNOWN = {method.name: method for method in (*musgrave2020.METHODS, *METHODS)}
"""The methods of the Reality Check and these, by their names."""
