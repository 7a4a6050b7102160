"""What the theme does not do: pages that need no network and load little, that say how they are cited, launch buttons.

Formulas become MathML, which browsers draw themselves. The converter is the one that docutils ships; a formula that it
cannot convert is a warning, so a build fails on it.
"""

import functools
import os
import re
from html import escape
from pathlib import Path

import pybtex.plugin
import yaml
from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

from dmlrc.report import about, citations, publish
from dmlrc.report.claims.claim import EXHIBITS

LOGGER = logging.getLogger(__name__)


def visit_inline(translator, node: nodes.math) -> None:
    translator.body.append(_convert(node, as_block=False))
    raise nodes.SkipNode


def visit_block(translator, node: nodes.math_block) -> None:
    label = f' id="{node["ids"][0]}"' if node["ids"] else ""
    number = f'<span class="eqno">({get_node_equation_number(translator, node)})</span>' if node["number"] else ""
    translator.body.append(f'<div class="math"{label}>{number}{_convert(node, as_block=True)}</div>')
    raise nodes.SkipNode


def _convert(node: nodes.Element, as_block: bool) -> str:
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        LOGGER.warning("formula cannot be converted to MathML: %s", error, location=node)
        return node.astext()


def cite(app: Sphinx, docname: str, source: list[str]) -> None:
    """Links to papers become citations; and every page says how it is cited itself: the chapters in their feet, which
    notebooks make, the others here."""
    source[0] = citations.as_roles(source[0])
    page = Path(docname)
    if page.parent.name != "chapters":
        entry = f"```bibtex\n{about.bibtex(page.name)}\n```"
        source[0] += f"\n\n:::::{{dropdown}} Cite this page\n:class-container: dml-about\n\n{entry}\n:::::\n"


def typeset_numbers(app: Sphinx, doctree: nodes.document) -> None:
    """Numbers that `{glue:text}` puts into a sentence get the signs that a table's have; % and × stay on their line."""
    for node in doctree.findall(nodes.inline):
        if "pasted-text" in node["classes"]:
            number = publish.typeset(node.astext())
            node.clear()
            node += nodes.Text(number)
    for text in list(doctree.findall(nodes.Text)):
        if not isinstance(text.parent, nodes.FixedTextElement | nodes.literal | nodes.raw):
            text.parent.replace(text, nodes.Text(publish.crossed(text.replace(" %", "\u00a0%"))))


def index_exhibits(app: Sphinx, doctree: nodes.document) -> None:
    """The papers' tables and figures are index entries by their ids: the search lists them before what mentions one."""
    found = [id for node in doctree.findall(nodes.container) for id in node["ids"] if id in EXHIBITS]
    doctree.append(addnodes.index(entries=[("single", id, id, "main", None) for id in found]))


def drop_thebe(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    """Jupyter Book puts thebe's scripts on every page; nothing here uses them, and they name a server."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if "thebe" not in f"{script.filename} {script.attributes.get('body')}".lower()
    ]


def set_repository(app: Sphinx, config: Config) -> None:
    """The launch buttons open the repository that $DMLRC_REPOSITORY or _config.yml names; without one there are none.

    Jupyter Book's default is its own repository.
    """
    options = config.html_theme_options
    if address := os.environ.get("DMLRC_REPOSITORY"):
        options |= {"repository_url": address, "repository_branch": "main", "path_to_docs": "book"}
    elif "executablebooks" in options.get("repository_url", ""):
        options["launch_buttons"] = {}


CITATION = Path(__file__).parents[2] / "CITATION.cff"


def show_release(app: Sphinx, config: Config) -> None:
    """The foot of every page: version, date and DOI as CITATION.cff has them, the repository; not what is unknown."""
    known = yaml.safe_load(CITATION.read_text(encoding="utf-8"))
    doi, address = known.get("doi"), os.environ.get("DMLRC_REPOSITORY")
    parts = [f"Version {known['version']}"] if "version" in known else []
    parts += [str(known["date-released"])] if "date-released" in known else []
    parts += [f'<a href="https://doi.org/{escape(doi)}">doi:{escape(doi)}</a>'] if doi else []
    parts += [f'<a href="{escape(address)}">Code and records</a>'] if address else []
    config.html_theme_options["extra_footer"] = " · ".join(parts)


def launch_notebooks(
    app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None
) -> None:
    """A page is book/chapters/X.ipynb, papermill's output; what can be launched is the committed notebooks/X.ipynb.

    The pages of the methods are made of one notebook.
    """
    for group in context.get("header_buttons", []):
        for button in group.get("buttons", []):
            if "url" in button:
                url = re.sub(r"book/chapters/method_\w+", "notebooks/method", button["url"])
                button["url"] = url.replace("book/chapters/", "notebooks/")


_ICON = re.compile(r'"?([\w-]+)"?:\[\d+,\d+,\[([^\]]*)\],"[0-9a-f]+",(?:"[^"]*"|\[[^\]]*\])\],?')
"""An icon in the script of Font Awesome: its name, and its other names in quotes."""


def keep_used_icons(app: Sphinx, exception: Exception | None) -> None:
    """Cut the icons that no page and no script names from the theme's script of icons, four fifths of all script."""
    icons = Path(app.outdir, "_static", "scripts", "fontawesome.js")
    if exception or not icons.exists():
        return
    named = [*Path(app.outdir).rglob("*.html"), *(each for each in icons.parents[1].rglob("*.js") if each != icons)]
    used = {name for path in named for name in re.findall(r"\bfa-([a-z\d-]+)", path.read_text(encoding="utf-8"))}

    def kept(icon: re.Match) -> str:
        return icon[0] if used & {icon[1], *re.findall(r'"([^"]*)"', icon[2])} else ""

    icons.write_text(_ICON.sub(kept, icons.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app: Sphinx) -> dict:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.config.html_math_renderer = "mathml"
    app.connect("config-inited", set_repository)
    # for each citation it looks through all that is installed, which takes a second or two of a book
    pybtex.plugin.find_plugin = functools.cache(pybtex.plugin.find_plugin)
    app.connect("config-inited", show_release)
    app.connect("source-read", cite)
    app.connect("doctree-read", typeset_numbers)
    app.connect("doctree-read", index_exhibits)
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("html-page-context", launch_notebooks, priority=900)
    app.connect("build-finished", keep_used_icons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
