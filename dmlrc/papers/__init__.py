"""The five papers, one module each: citation, protocol, methods, expected numbers.

`ALL` is the one list of them. The command line, the tables of protocols and methods, the claims and their chapters read
it; a paper's claims are `dmlrc/report/claims/<key>.toml`, its deviations `dmlrc/report/deviations/<key>.toml`.
"""

from dataclasses import dataclass, field

from dmlrc.methods import Method
from dmlrc.papers import fehervari2019, musgrave2020, oi2021, roth2020, zhai2019
from dmlrc.protocol import Protocol


@dataclass(frozen=True)
class Paper:
    """A paper whose experiments are run.

    key: of its protocol, its modules and its entry in the bibliography. id: what the names of its claims, tables and
    figures begin with. label: as printed. chapter: the notebook that has its tables. protocol, methods: on CUB200. url:
    an open-access copy, or "".
    """

    key: str
    id: str
    label: str
    chapter: str
    protocol: Protocol = field(repr=False)
    methods: tuple[Method, ...] = field(repr=False)
    url: str

    @property
    def year(self) -> int:
        return int(self.key[-4:])


ALL = tuple(
    Paper(module.PROTOCOL.paper, short, label, chapter, module.PROTOCOL, module.METHODS, url)
    for module, short, label, chapter, url in (
        (musgrave2020, "musgrave", "Musgrave et al. 2020", "04_which_loss_wins", "https://arxiv.org/abs/2003.08505"),
        (roth2020, "roth", "Roth et al. 2020", "11_roth2020", "https://arxiv.org/abs/2002.08473"),
        (fehervari2019, "fehervari", "Fehervari et al. 2019", "12_fehervari2019", "https://arxiv.org/abs/1911.12528"),
        (zhai2019, "zhai", "Zhai and Wu 2019", "13_zhai2019", "https://arxiv.org/abs/1811.12649"),
        (oi2021, "oi", "Oi et al. 2021", "14_oi2021", ""),
    )
)
"""The Reality Check first; the others in the order of their chapters."""
