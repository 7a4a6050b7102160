"""The command line: `dmlrc study`, `dmlrc data`, `dmlrc methods`, `dmlrc book`, `dmlrc single`."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import dmlrc  # its parts are imported by the commands that use them
from dmlrc.errors import DmlrcError, UsageError

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__, add_completion=False)
study_app = typer.Typer(no_args_is_help=True, help="List, run, show and export studies.")
data_app = typer.Typer(no_args_is_help=True, help="List, fetch and check data sets.")
app.add_typer(study_app, name="study")
app.add_typer(data_app, name="data")


def _workers(number: int) -> int:
    return dmlrc.executors.check_workers(number)


Workers = Annotated[int, typer.Option(min=1, callback=_workers, help="Processes that train at the same time.")]


@study_app.command("list")
def study_list() -> None:
    """Every study: data set, protocol, budget, expected time, what it lacks here, and how many of its records are."""
    rows = [("study", "data set", "protocol", "budget", "expected", "missing here", "records")]
    for each in dmlrc.studies.known().values():
        lacks = ", ".join(dmlrc.readiness.missing(each)) or "-"
        described = (each.name, each.dataset, each.protocol.name, each.budget.name, each.expected, lacks)
        rows.append((*described, _progress(each)))
    _print_columns(rows)


@study_app.command("run")
def study_run(
    name: str,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be repeated.")] = None,
    workers: Workers = 1,
    repetitions: Annotated[
        int | None, typer.Option(min=1, help="Searches of each method; default the study's.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://HOST:8786: its workers train.")
    ] = None,
) -> None:
    """Run what is missing of a study. Stop it at any moment: the next call goes on."""
    if scheduler and workers != 1:
        raise UsageError("--workers starts processes here, --scheduler takes those of a cluster: choose one")
    chosen = dmlrc.studies.get(name)
    if repetitions:
        chosen = replace(chosen, repetitions=repetitions)
    methods = [chosen.method(each) for each in method] if method else None
    with _interruptible(), dmlrc.cluster.Dask(scheduler) if scheduler else contextlib.nullcontext() as executor:
        dmlrc.study.run(chosen, methods, executor, workers=None if scheduler else workers)
    typer.echo(f"study {name}: {_progress(chosen)}")


@study_app.command("check")
def study_check(name: Annotated[str | None, typer.Argument(help="Default: every study with records.")] = None) -> None:
    """Verify every record that is here: damaged, foreign, doubled and impossible ones are named, with what to do."""
    folders = (*dmlrc.paths.runs().glob("*"), *dmlrc.paths.results().glob("*"))
    names = [dmlrc.studies.get(name).name] if name else sorted({folder.name for folder in folders if folder.is_dir()})
    known = dmlrc.studies.known()
    said = []
    for each in names:
        said += dmlrc.schedule.problems(known[each]) if each in known else dmlrc.records.problems(each)
    for sentence in said:
        typer.echo(sentence)
    if said:
        raise DmlrcError(f"{len(said)} of the records of {len(names)} studies cannot be used; each is named above")
    typer.echo(f"every record of {len(names)} studies is sound")


@study_app.command("show")
def study_show(name: str) -> None:
    """The results table of a study: mean accuracy on the test half over the reruns."""
    found = dmlrc.records.load(dmlrc.studies.get(name).name)
    wanted = ["precision_at_1", "r_precision", "map_at_r"]
    scores = found.scores[found.scores["metric"].isin(wanted)]
    scores = scores[scores["setting"].isin(["concatenated", "separated"])]
    table = scores.pivot_table(index="method", columns=["setting", "metric"], values="value", sort=False)
    data_facts, protocol, budget = found.meta["data"], found.meta["protocol"], found.meta["budget"]
    typer.echo(
        f"{name}: {data_facts['name']}, {data_facts['images']} images; protocol {protocol['name']}; "
        f"budget {budget['name']}; commit {found.meta['commit']}"
    )
    typer.echo((100 * table).round(2).to_string())


@study_app.command("export")
def study_export(
    name: str,
    optuna: Annotated[Path | None, typer.Option(help="Write its searches to this new Optuna journal.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write its records as CSV files into this folder.")] = None,
) -> None:
    """Write the records of a study that was run here to results/, to be committed; or all its records elsewhere."""
    chosen = dmlrc.studies.get(name)
    if optuna:
        typer.echo(f"{optuna}: {len(dmlrc.exports.to_journal(chosen, optuna))} searches")
    if csv:
        typer.echo(dmlrc.exports.to_csv(chosen, csv))
    if not optuna and not csv:
        typer.echo(dmlrc.study.export(chosen))


@data_app.command("list")
def data_list() -> None:
    """Every data set, and whether it is here."""
    _print_columns([("data set", "here"), *((name, dmlrc.data.state(name)) for name in dmlrc.data.names())])


@data_app.command("fetch")
def data_fetch(name: str) -> None:
    """Download a data set from its official source, check it and unpack it."""
    typer.echo(dmlrc.data.fetch(name))


@data_app.command("check")
def data_check(name: str) -> None:
    """Read a whole data set and count its images and classes."""
    images = dmlrc.data.load(name)
    typer.echo(f"{name}: {len(images.labels)} images, {len(images.class_names)} classes")


@app.command()
def methods() -> None:
    """Every method of the five papers: year, kind, batch, and what a search varies or the paper fixes."""
    rows = [("paper", "method", "year", "kind", "batch", "searched, or settings")]
    for paper in dmlrc.papers.ALL:
        for each in paper.methods:
            batch = f"{each.classes_per_batch} x {each.images_per_class}"
            fixed = (f"{name} {value:.4g}" for name, value in each.settings.items())
            rows.append((paper.key, each.name, str(each.year), each.kind, batch, ", ".join([*each.space, *fixed])))
    _print_columns(rows)


@app.command()
def book(
    name: Annotated[str, typer.Argument(help="Studies joined by commas, or an edition: quick, published.")] = "quick",
    workers: Workers = 1,
) -> None:
    """Train what is missing, execute the chapters, build the pages."""
    from dmlrc.report import build as bookmaking
    from dmlrc.report import editions

    with _interruptible():
        page = bookmaking.build(editions.names(name), workers, train=name != "published")
    typer.echo(f"open {page}")


@app.command()
def single() -> None:
    """Build one page of all chapters of the book that was made last, to print or to save as PDF."""
    from dmlrc.report import build as bookmaking

    typer.echo(f"open {bookmaking.single_page()}")


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what a scheduler sends ends as cleanly as Ctrl-C
    try:
        yield
    except KeyboardInterrupt:
        raise DmlrcError("stopped; finished records are kept, and the same command goes on from here") from None


def _progress(each: "dmlrc.protocol.Study") -> str:
    return "{} of {} units".format(*dmlrc.schedule.progress(each))


def _print_columns(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def main() -> None:
    """Entry point: a DmlrcError is printed as one sentence, and its exit code returned."""
    try:
        app()
    except DmlrcError as error:
        print(f"dmlrc: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
