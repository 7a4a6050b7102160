"""What keeps the house small: few modules in its root, budgets of lines, one thing a name, a main path of few files."""

import ast
import functools
import importlib
import inspect
import io
import itertools
import re
import sys
import textwrap
import tokenize
from collections import Counter
from pathlib import Path

import pytest
import torch
import typer

from dmlrc import cli, data, inputs, losses, metrics, models, papers, studies

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dmlrc"
FILES = sorted(PACKAGE.rglob("*.py"))


@functools.cache
def trees():
    """What each file says; parsed by the first test that asks, since every worker imports this module."""
    return {path.relative_to(PACKAGE): ast.parse(path.read_text()) for path in FILES}


def lines(paths):
    return sum(len(path.read_text().splitlines()) for path in paths)


def test_the_root_holds_what_is_read_first():
    modules = [path.name for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")]
    assert len(modules) <= 16, modules


BUDGETS = {"library": (17_800, 10_000), "report": (18_575, 11_000)}
"""Of a part the lines, and the lines of code alone: without imports, docstrings, comments and blank lines."""


def code_lines(text, tree):
    """How many lines of a text, with its tree, hold a statement or a part of one."""
    left_out = set()
    for node in ast.walk(tree):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            left_out |= {*range(node.lineno, node.end_lineno + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    spans = (range(token.start[0], token.end[0] + 1) for token in tokens if token.type not in NO_CODE)
    return len({*itertools.chain.from_iterable(spans)} - left_out)


NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@pytest.mark.parametrize("part", BUDGETS)
def test_a_budget_of_lines_holds(part):
    """The aims are 10,000 and 11,000, to which code alone keeps: whoever makes a part smaller lowers its budget."""
    of_report = [path for path in FILES if "report" in path.relative_to(PACKAGE).parts]
    files = of_report if part == "report" else sorted(set(FILES) - set(of_report))
    most, most_code = BUDGETS[part]
    assert lines(files) <= most
    assert sum(code_lines(path.read_text(), trees()[path.relative_to(PACKAGE)]) for path in files) <= most_code


def test_lines_of_code_are_those_that_do_something():
    text = (
        '"""A text\nof two lines."""\n\nimport os\n\nx = (  # a bracket\n    1,\n)\n\n# alone\ny = """text\nmore"""\n'
    )
    assert code_lines(text, ast.parse(text)) == 5


def test_no_module_is_longer_than_can_be_read_at_a_time():
    sizes = {path.relative_to(PACKAGE).as_posix(): lines([path]) for path in FILES}
    assert {name: size for name, size in sizes.items() if size > 500} == {}


def body(function):
    """The lines of a function without its signature and docstring."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    statements = function.body[is_docstring:] or [first]
    return statements[-1].end_lineno - statements[0].lineno + 1


def test_a_function_fits_a_screen():
    long = {
        f"{path}:{node.name}": body(node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and body(node) > 40
    }
    assert long == {}


PARTICIPLES = {"told", "found", "said", "made", "each"}
"""Names that say nothing of what they hold."""


def named(tree):
    """Every name that a module gives: variables, arguments, functions, classes, fields, imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.alias(asname=name):
                yield name
            case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def test_names_are_nouns():
    assert {f"{path}: {name}" for path, tree in trees().items() for name in PARTICIPLES & set(named(tree))} == set()


PROMISED = {"names": 4, "load": 3}
"""Names that outside code calls by their folder: losses.names, metrics.names, data.load, models.load, records.load."""


def test_a_public_name_is_one_thing():
    """But for the function `numbers`, of which each chapter has one."""
    public = [
        node.name
        for tree in trees().values()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_") and node.name != "numbers"
    ]
    assert {name: count for name, count in Counter(public).items() if count > 1} == PROMISED


NEITHER_VERB_NOR_NOUN = re.compile(
    "(what|where|which|how|whether|who|whose|why|when|while|that|this|those|these|such|some|any|no|none|not|it|its|they"
    "|their|there|is|are|was|as|of|in|for|if|with|from|to|on|at|by|between|since|because|also|only) ",
    re.I,
)


def test_a_docstring_begins_with_a_verb_or_a_noun():
    bad = [
        f"{path}: {text.splitlines()[0]}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node))
        if NEITHER_VERB_NOR_NOUN.match(text)
    ]
    assert bad == []


STAY = {
    "dmlrc.losses": ["names", "create"],
    "dmlrc.metrics": ["names", "evaluate"],
    "dmlrc.models": ["names", "create_trunk", "load"],
    "dmlrc.models.saved": ["RetrievalModel"],
    "dmlrc.data": ["names", "load"],
    "dmlrc.methods": ["Method", "Float"],
    "dmlrc.study": ["run"],
    "dmlrc.studies": ["get", "known"],
    "dmlrc.records": ["load"],
    "dmlrc.training": ["train"],
    "dmlrc.building": ["build_loss"],
    "dmlrc.inputs": ["FeatureSource"],
    "dmlrc.cli": ["main"],
}
"""Names that code outside of this repository uses, which stay where they are, as aliases if they move."""
WORDS = {
    "losses": """contrastive triplet ntxent proxy_nca proxy_triplet margin margin_per_class normalized_softmax cosface
        arcface sphereface fast_ap snr multi_similarity multi_similarity_miner soft_triple lifted_structure n_pairs
        generalized_lifted angular histogram quadruplet ranked_list structured_clustering prototypical tuplet_margin
        triplet_random triplet_semihard triplet_softhard triplet_distance contrastive_distance margin_distance
        snr_distance""",
    "metrics": """precision_at_1 recall_at_2 r_precision map_at_r map_at_c map_at_1000 nmi f1 jsd rho pi_intra pi_inter
        pi_ratio mean_positive mean_negative""",
    "studies": """glyphs-smoke glyphs-quick glyphs-full grocery-quick grocery-frozen omniglot-scratch cub200-2010-frozen
        cars196crops-frozen cub200-2010-last-block cars196crops-last-block cub200-musgrave2020 cars196-musgrave2020
        sop-musgrave2020""",
}
COMMANDS = {"study": ["list", "run", "show", "export"], "data": ["list", "fetch", "check"], "methods": [], "book": []}


def test_the_names_that_outside_code_uses_are_there():
    for module, names in STAY.items():
        assert {name for name in names if not hasattr(importlib.import_module(module), name)} == set(), module
    words = {what: text.split() for what, text in WORDS.items()}
    assert {name for name in words["losses"] if name not in losses.names()} == set()
    assert any(name.startswith("r_") for name in losses.names())
    known = {*metrics.names(), *filter(metrics.retrieval.is_retrieval, words["metrics"])}
    assert {name for name in words["metrics"] if name not in known} == set()
    assert all(map(studies.get, words["studies"]))  # where it has another name today, that one is told
    assert {paper.key for paper in papers.ALL} >= {"musgrave2020", "roth2020", "oi2021", "fehervari2019", "zhai2019"}


def test_the_arguments_that_outside_code_gives_are_taken():
    embeddings, labels = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]], [0, 0, 1, 1]
    loss = losses.create("contrastive", num_classes=100, embedding_dim=2, pos_margin=0.0, neg_margin=0.5)
    assert loss(torch.tensor(embeddings), torch.tensor(labels)).ndim == 0
    query = (embeddings[:1], labels[:1])
    assert metrics.evaluate(embeddings, labels, names=("map_at_r",), query=query) == {"map_at_r": 1.0}
    assert models.create_trunk("conv4", weights=None)(torch.rand(2, 3, 28, 28)).shape[0] == 2
    assert len(data.load("glyphs", root=None).labels)


def test_the_commands_that_outside_scripts_call_are_there():
    groups = typer.main.get_command(cli.app).commands
    for name, commands in COMMANDS.items():
        assert set(commands) <= set(getattr(groups[name], "commands", ())), name


def documented():
    """What the API page shows, what outside code uses, and the losses that have hyperparameters of their own."""
    shown = re.findall(r"^\.\. auto(?:function|class):: ([\w.]+)", (ROOT / "book/api.md").read_text(), flags=re.M)
    stay = [f"{module}.{name}" for module, names in STAY.items() for name in names if name != "main"]
    for name in dict.fromkeys([*shown, *stay]):
        module, _, attribute = name.rpartition(".")
        yield inspect.unwrap(getattr(importlib.import_module(module), attribute))
    yield from (loss for loss in dict.fromkeys(losses.REGISTRY.values()) if "__init__" in vars(loss))


def own_statements(node):
    """The nodes of a function but for those of the functions in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield from own_statements(child)


def demanded(value):
    """The sections that the code asks for: it returns or raises something, or computes what a paper defines."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    makers = [node for node in tree.body if getattr(node, "name", "") in ("__init__", "__post_init__")]
    functions = makers if isinstance(tree, ast.ClassDef) else [tree]
    nodes = [node for function in functions for node in own_statements(function)]
    if any(isinstance(node, ast.Return) and node.value for node in nodes):
        yield "Returns"
    if any(isinstance(node, ast.Raise) for node in nodes):
        yield "Raises"
    if value.__module__.startswith("dmlrc.losses.") or (value.__module__, value.__name__) in PUBLISHED:
        yield "References"


PUBLISHED = {
    ("dmlrc.metrics", "evaluate"),
    ("dmlrc.metrics.retrieval", "per_class"),
    ("dmlrc.metrics.binary", "evaluate_binary"),
}


def test_what_is_public_has_the_sections_of_numpydoc():
    order = ["Parameters", "Returns", "Raises", "Notes", "References"]
    for value in documented():
        text = inspect.cleandoc(value.__doc__)
        sections = re.findall(r"^(\w+)\n-+$", text, flags=re.M)
        assert sections == [name for name in order if name in sections], value
        block = re.search(r"^Parameters\n-+\n(.*?)(\n\n(\w+\n-|>>>)|\Z)", text, flags=re.M | re.S)
        rows = re.findall(r"^([\w*, ]+) : ", block[1] if block else "", flags=re.M)
        explained = [name for row in rows for name in row.replace("*", "").split(", ")]
        assert sorted(explained) == sorted(inspect.signature(value).parameters), value
        assert set(demanded(value)) <= set(sections), value


def listed():
    """The main path as CONTRIBUTING.md tells it: files and functions."""
    return re.findall(r"^\d+\. `(dmlrc/[\w/]+\.py)`, `([\w.]+)`", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.M)


def test_the_main_path_is_short():
    assert 15 < len(listed()) <= 23  # 20 was the aim; CONTRIBUTING.md says what keeps it from that
    assert len({file for file, _ in listed()}) < 12


def step(frame):
    """The file and the function whose text a frame runs; what is defined inside a function is read with it."""
    code = frame.f_code
    return code.co_filename.removeprefix(f"{ROOT}/"), code.co_qualname.partition(".<locals>")[0]


def unlisted(frame, steps):
    """The functions from the command to this frame, it among them, that are not on the list."""
    above = set()
    while frame.f_code is not cli.study_run.__code__:
        above |= {step(frame)} - steps
        frame = frame.f_back
    return {(file, name) for file, name in above if file.startswith("dmlrc/")}


def test_a_study_goes_along_the_main_path(photographs, monkeypatch):
    """Each step is called, and from the command by listed ones alone, so that no function is passed unseen."""
    steps = frozenset(listed())
    passed = {place: {"never called"} for place in steps}  # of the way to each step that passes fewest unlisted ones

    def profile(frame, event, _):
        if event == "call" and (place := step(frame)) in steps and passed[place]:
            others = unlisted(frame, steps)
            passed[place] = others if passed[place] == {"never called"} else min(passed[place], others, key=len)

    inputs._prepared.cache_clear()  # another test may have prepared the same
    monkeypatch.setattr(sys, "argv", ["dmlrc", "study", "run", "glyphs-smoke", "--method", "contrastive"])
    sys.setprofile(profile)
    try:
        with pytest.raises(SystemExit):
            cli.main()
    finally:
        sys.setprofile(None)
    assert {place: others for place, others in passed.items() if others} == {}
