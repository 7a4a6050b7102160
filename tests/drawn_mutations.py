"""Mistakes drawn by chance, for `tests/mutations.py`: one token of a file is turned into its opposite.

    python tests/drawn_mutations.py [SEED [COUNT]]

The seventeen that were drawn, there, are the first of seed 2026. Left out were one that moves the edge of a figure, one
that came twice, and two that change nothing: a part of the records has numbers throughout or none, and scipy has no
interval either where `welch` gives none. They are kept as they were drawn: when the code changes, others would be.
"""

import ast
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

REPORT = Path(__file__).resolve().parents[1] / "dmlrc" / "report"
SOURCES = (
    [REPORT / "tables.py"],
    sorted((REPORT / "statistics").glob("*.py")),
    sorted(REPORT.glob("*/figures.py")),
    sorted((REPORT / "published_numbers").glob("*.csv")),
)
OPPOSITES = {
    **{ast.Lt: ">", ast.Gt: "<", ast.LtE: ">", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in"},
    **{ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.And: "or", ast.Or: "and"},
}
NAMES = {"max": "min", "min": "max", "idxmax": "idxmin", "low": "high", "high": "low", "ours": "theirs", "any": "all"}


def swaps(path: Path) -> Iterator[tuple[int, int, str, str]]:
    """Line, column, the token and what it is turned into, of every place in a file where that can be done."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        for line, row in enumerate(text.splitlines()[1:], 1):
            for found in re.finditer(r"(?<=,)\d*\.\d*(\d)(?!\1)(\d)(?=,)", row):
                yield line, found.start(1), found[0][-2:], found[0][:-3:-1]
        return
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in NAMES:
            yield node.end_lineno - 1, node.end_col_offset - len(node.attr), node.attr, NAMES[node.attr]
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float) and path.name != "figures.py":
            yield node.lineno - 1, node.col_offset, ast.unparse(node), "1" if node.value == 0 else f"{2 * node.value}"
        elif isinstance(node, ast.keyword) and node.arg in ("x", "y", "xerr", "yerr"):
            yield node.lineno - 1, node.col_offset, node.arg, f"{'yx'[node.arg[0] == 'y']}{node.arg[1:]}"
        elif isinstance(node, ast.BinOp | ast.Compare | ast.BoolOp):
            yield from _operator(node, lines)


def _operator(node: ast.expr, lines: list[str]) -> Iterator[tuple[int, int, str, str]]:
    left = node.values[0] if isinstance(node, ast.BoolOp) else node.left
    kind = type(node.ops[0] if isinstance(node, ast.Compare) else node.op)
    if kind in OPPOSITES:
        line, start = left.end_lineno - 1, left.end_col_offset
        found = re.match(r"[)\]\s]*(<=|>=|==|!=|not in|in|and|or|[-+*/<>])\s", lines[line][start:])
        if found:
            yield line, start + found.start(1), found[1], OPPOSITES[kind]


def draw(seed: int, count: int) -> Iterator[tuple[str, str, str]]:
    """File, the line as it is and as it is turned, of lines that stand once in their file."""
    chance = random.Random(seed)
    while count:
        path = chance.choice(chance.choice(SOURCES))
        places = list(swaps(path))
        if not places:
            continue
        line, column, token, turned = chance.choice(places)
        text = path.read_text(encoding="utf-8")
        old = text.splitlines()[line]
        if text.count(old) == 1 and old[column:].startswith(token):
            count -= 1
            yield str(path.relative_to(REPORT.parents[1])), old, old[:column] + turned + old[column + len(token) :]


if __name__ == "__main__":
    seed, count = (*sys.argv[1:3], "2026", "24")[:2] if len(sys.argv) != 2 else (sys.argv[1], "24")
    for file, old, new in draw(int(seed), int(count)):
        print(f"{file}\n  - {old}\n  + {new}")
