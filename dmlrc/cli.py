"""Losses of deep metric learning under one fair protocol: run studies, read their records, make the book of them."""

import contextlib
import errno
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import dmlrc  # its parts are imported by the commands that use them
from dmlrc import errors, report, studies  # the last two are lazy too
from dmlrc.errors import DmlrcError, MissingDataError, UsageError, printable

_PLAIN = {"no_args_is_help": True, "rich_markup_mode": None}  # with rich, a switch has the type <bool> in its help
app = typer.Typer(**_PLAIN, pretty_exceptions_enable=False)
study_app = typer.Typer(**_PLAIN, help="List, run, show and export studies.")
data_app = typer.Typer(**_PLAIN, help="List, fetch and check data sets.")
board_app = typer.Typer(rich_markup_mode=None, help="Losses that others sent, beside those of a study.")
bench_app = typer.Typer(**_PLAIN, help="The recorded searches as a benchmark for optimisers.")
app.add_typer(study_app, name="study")
app.add_typer(data_app, name="data")
app.add_typer(bench_app, name="bench")
app.add_typer(board_app, name="board")


def _workers(number: int) -> int:
    return dmlrc.executors.check_workers(number)


def _study_names(begun: str) -> list[str]:
    return [name for name in studies.known() if name.startswith(begun)]


def _data_names(begun: str) -> list[str]:
    return [name for name in dmlrc.data.names() if name.startswith(begun)]


Name = Annotated[str, typer.Argument(autocompletion=_study_names, help="A study, see `dmlrc study list`.")]
DataName = Annotated[str, typer.Argument(autocompletion=_data_names, help="A data set, see `dmlrc data list`.")]
Workers = Annotated[int, typer.Option(min=1, callback=_workers, help="Processes that train at the same time.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dmlrc {dmlrc.__version__}")
        raise typer.Exit


@app.callback(help=__doc__)
def _before_any_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@study_app.command("list")
def study_list(
    word: Annotated[str, typer.Argument(help="Only studies with this in their names.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Also the experiments around a methods table.")] = False,
) -> None:
    """List the methods tables. Of each: data set, budget, expected time, what is recorded of it, or what it lacks.

    Times are for 2 cores unless they say otherwise, those in GPU hours for a V100.
    """
    _print_lines(report.console.matching(word) if word or everything else report.console.tables())


@study_app.command("run")
def study_run(
    name: Name,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be repeated.")] = None,
    workers: Workers = 1,
    repetitions: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Searches of each method; default the study's.")
    ] = None,
    proposals: Annotated[
        int, typer.Option(min=1, help="Trials run in parallel. More finish sooner; the search learns less from each.")
    ] = 1,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop by itself after so long, as on a GPU that is lent for a while.")
    ] = None,
    save_models: Annotated[
        bool, typer.Option("--save-models", help="Keep the models of the reruns, as runs/NAME/METHOD/*.safetensors.")
    ] = False,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, such as tls://HOST:8786: its workers train.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Another setting, embedding_dim=512; may be repeated; needs --as.")
    ] = None,
    new_name: Annotated[
        str | None, typer.Option("--as", help="The name of the study with these settings, entered in studies.toml.")
    ] = None,
) -> None:
    """Run what is missing of a study. Stop it at any moment: the next call goes on."""
    if scheduler == "":  # a variable of the shell that is not set, with which this machine would train everything
        raise UsageError("--scheduler is empty: give the address that the scheduler prints, such as tls://HOST:8786")
    if scheduler and workers != 1:
        raise UsageError("--workers starts processes here, --scheduler takes those of a cluster: choose one")
    if bool(settings) != bool(new_name):
        raise UsageError("--set makes a study of its own, and --as names it: give both, --set lr=1e-4 --as my-rate")
    chosen = studies.enter_changed(name, settings, new_name) if settings else studies.get(name)
    if repetitions:
        chosen = replace(chosen, repetitions=repetitions)
    methods = [chosen.method(label) for label in dict.fromkeys(method)] if method else None
    with _interruptible(), dmlrc.run.Dask(scheduler) if scheduler else contextlib.nullcontext() as executor:
        options = {"proposals": proposals, "seconds": seconds, "save_models": save_models}
        dmlrc.run.run(chosen, methods, executor, None if scheduler else workers, **options)
    typer.echo("study {}: {} of {} units".format(chosen.name, *dmlrc.plan.progress(chosen)))


@study_app.command("check")
def study_check(
    name: Annotated[
        str | None, typer.Argument(autocompletion=_study_names, help="Default: every study with records.")
    ] = None,
) -> None:
    """Verify every record that is here. Damaged, foreign, doubled and impossible ones are named, with what to do."""
    roots = dmlrc.paths.runs(), dmlrc.paths.results()
    here = {recorded for root in roots for recorded in dmlrc.records.recorded_in(root)}
    names = [studies.recorded.named(name).name] if name else sorted(here)
    if not here.intersection(names):
        raise MissingDataError(f"there are no records{f' of {name}' if name else ''} in {' or '.join(map(str, roots))}")
    several = f"{len(names)} stud{'y' if len(names) == 1 else 'ies'}"
    known = studies.known()
    sentences = []
    for study in names:
        sentences += dmlrc.plan.study_problems(known[study]) if study in known else dmlrc.records.problems(study)
    _print_lines(sentences)
    if sentences:
        raise DmlrcError(f"of the records of {several}, {len(sentences)} cannot be used; each is named above")
    typer.echo(f"every record of {several} is sound")


@study_app.command("show")
def study_show(name: Name) -> None:
    """Show a study's results. Accuracy on the test half with intervals, ranks, and who may be the best."""
    _print_lines(report.ranking.lines(dmlrc.records.load(studies.recorded.named(name).name)))


@study_app.command("export")
def study_export(
    name: Name,
    optuna: Annotated[Path | None, typer.Option(help="Write its searches to this new Optuna journal.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write its records as CSV files into this folder.")] = None,
) -> None:
    """Write a study's records to results/, or elsewhere. There those that were run here are to be committed."""
    chosen = studies.recorded.named(name)
    is_known = chosen.name in studies.known()
    if optuna and not is_known:
        raise UsageError(f"study {name!r} was made in Python: `dmlrc.studies.exports.to_journal` writes its searches")
    if optuna:
        typer.echo(f"{optuna}: {report.labels.plural(len(studies.exports.to_journal(chosen, optuna)), 'search')}")
    if csv:
        typer.echo(studies.exports.to_csv(chosen, csv))
    if not optuna and not csv:
        typer.echo(dmlrc.run.export(chosen) if is_known else studies.exports.of_python(chosen))


@data_app.command("list")
def data_list() -> None:
    """List data sets, and weights to bring. Whether they are here, how large, or how to get them."""
    _print_lines([*report.console.data_sets(), "", *report.console.weights()])


@data_app.command("fetch")
def data_fetch(name: DataName) -> None:
    """Download a data set, check it and unpack it. From its official source."""
    typer.echo(dmlrc.data.fetch(name))


@data_app.command("check")
def data_check(name: DataName) -> None:
    """Read a whole data set and count its images and classes."""
    images = dmlrc.data.load(name)
    counts = (len(images.labels), "image"), (len(images.class_names), "class")
    typer.echo(f"{name}: {', '.join(report.labels.plural(*count) for count in counts)}")


@bench_app.command("export")
def bench_export(folder: Annotated[Path, typer.Argument(help="A new folder.")]) -> None:
    """Write the benchmark for other tools. HPO-B's JSON, Parquet files, their data card and Croissant description."""
    from dmlrc.bench import export

    typer.echo(export.export_bench(folder))


@board_app.callback(invoke_without_command=True)
def board(
    context: typer.Context,
    study: Annotated[str, typer.Option(autocompletion=_study_names, help="The methods table.")] = "grocery-quick",
) -> None:
    """The entries beside the methods of a study: ranks with their intervals, and who ties with the best."""
    if context.invoked_subcommand is None:
        _print_lines(report.ranking.lines(dmlrc.board.load_board(studies.get(study))))


@board_app.command("check")
def board_check(
    entry: Annotated[str | None, typer.Argument(help="An entry, STUDY/board/LOSS; default every one.")] = None,
    units: Annotated[int, typer.Option(min=1, help="How many of its trials and reruns are run again.")] = 3,
    seed: Annotated[int | None, typer.Option(min=0, help="Of which ones; default others each time.")] = None,
) -> None:
    """Check entries of the board. The file is the loss that was trained, nothing is missing, units run again agree."""
    entries = dmlrc.board.entries()
    if not entries:
        raise MissingDataError(f"there is no entry in {dmlrc.paths.results()}: name the clone in DMLRC_HOME")
    for name in [entry] if entry else entries:
        _print_lines(dmlrc.board.check_board(name, units, seed))


@app.command("methods")
def list_methods() -> None:
    """List every method of the papers. Year, kind, batch, and what a search varies or the paper fixes."""
    _print_lines(report.console.method_lines())


@app.command()
def photos(
    folder: Annotated[str, typer.Argument(help="A folder of photos, in it one folder a class.")],
    name: Annotated[str | None, typer.Option(help="Name of the study (default: the folder's name).")] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Of the cross-validation; default as the classes allow.")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Of each search; default 10.")] = None,
    reruns: Annotated[int | None, typer.Option(min=1, help="Of each search's best; default 3.")] = None,
    workers: Workers = 1,
    check: Annotated[bool, typer.Option("--check", help="Only say what is there and how long it takes.")] = False,
) -> None:
    """Find the loss for your photos. They are checked, losses compared on them, and a page written with the answer."""
    numbers = {"folds": folds, "trials": trials, "reruns": reruns}
    images = studies.photos.look(folder)
    given = {key: value for key, value in numbers.items() if value is not None}
    chosen, entry = studies.photos.study_of(images, name, given)
    _print_lines(studies.photos.plan(images, chosen, workers))
    # a photo that is damaged, or too few for a fold, is told before anything is written
    too_small = dmlrc.preflight.too_small(chosen, chosen.methods)
    if check:
        _print_lines([*too_small.values()])
        return
    errors.require("search", "a search for hyperparameters")  # before anything is written
    studies.own.enter(entry)
    with _interruptible():
        dmlrc.run.run(chosen, workers=workers)
    _print_lines(report.photos.answer.sentences(dmlrc.records.load(chosen.name)))
    typer.echo(f"open {report.photos.write_page(chosen)}")


@app.command()
def power(
    difference: Annotated[float, typer.Option(help="Of two methods, to be told; points of MAP@R, or your unit.")],
    study: Annotated[
        str | None, typer.Option(autocompletion=_study_names, help="Whose luck and hours; its searches are repeated.")
    ] = None,
    search_sd: Annotated[float | None, typer.Option(help="Standard deviation of a method's searches.")] = None,
    seed_sd: Annotated[float | None, typer.Option(help="Standard deviation of the reruns of one search.")] = None,
    methods: Annotated[
        int | None, typer.Option(min=2, max=1_000, help="How many are compared; default the study's, or 14.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw what more searches tell into this picture.")] = None,
) -> None:
    """Plan the runs that tell two methods apart. How many searches and reruns, and how long they take."""
    errors.require("book", "a plan of searches")
    design, cost = report.planning.asked(study, search_sd, seed_sd, methods)
    _print_lines(report.planning.planning_lines(design, difference, cost))
    if plot:
        report.planning.save_curve(design, difference, plot)
        typer.echo(f"open {plot}")


@app.command("embed")
def embed_command(
    model: Annotated[Path, typer.Argument(help="A model that `dmlrc study run --save-models` kept.")],
    folder: Annotated[Path, typer.Argument(help="A folder of images, searched whole.")],
    output: Annotated[Path, typer.Option(help="The file of NumPy to write.")] = Path("embeddings.npz"),
) -> None:
    """Embed every image in a folder. It writes embeddings (N, D) and the paths (N,) of the images."""
    count, size, models = dmlrc.models.saved.embed_folder(model, folder, output)
    joined = f", {size // models} by each of {models} models" * (models > 1)
    typer.echo(f"{output}: {report.labels.plural(count, 'embedding')} of {size} numbers{joined}")


@app.command()
def book(
    name: Annotated[
        str,
        typer.Argument(
            autocompletion=_study_names,
            help="Studies, or the editions quick and published, joined by commas. Beside published ones, which the "
            "chapters show, others have a page of their own.",
        ),
    ] = "published,quick",
    workers: Workers = 1,
) -> None:
    """Train what is missing, execute the chapters, build the pages."""
    with _interruptible():
        shown, train, yours = report.editions.divided(name)
        page = report.build.build(shown, workers, train, yours)
    typer.echo(f"open {page}")


@app.command("compare")
def compare_loss(
    file: Annotated[
        Path | None, typer.Argument(help="A file of Python with a loss, and the space of its hyperparameters.")
    ] = None,
    study: Annotated[str, typer.Option(autocompletion=_study_names, help="The methods table.")] = "grocery-quick",
    trials: Annotated[int | None, typer.Option(min=1, help="Trials of each search; default the study's.")] = None,
    reruns: Annotated[int | None, typer.Option(min=1, help="Reruns of each best trial; default the study's.")] = None,
    repetitions: Annotated[int | None, typer.Option(min=1, help="Searches of the loss; default the study's.")] = None,
    workers: Workers = 1,
    submit: Annotated[
        bool, typer.Option("--submit", help="Also write an entry of the board, to be sent as a pull request.")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="Only list the comparisons that were made here.")] = False,
    removed: Annotated[
        str | None, typer.Option("--remove", metavar="NAME", help="Only remove one of these, by its name there.")
    ] = None,
) -> None:
    """Compare a loss of your own with a study's methods. It is looked over, searched, rerun, and shown on a page."""
    if (file is not None) + listed + (removed is not None) != 1:
        raise UsageError("name the file of a loss, or --list, or --remove and a comparison: one of the three")
    if file:
        budget = {"trials": trials, "reruns": reruns, "repetitions": repetitions}
        _compared(file, study, budget, workers, submit)
    elif listed:
        _print_lines(report.console.comparisons())
    else:
        _print_lines([f"removed {dmlrc.comparison.remove(removed)}", *report.console.exported_comparisons()])


def _compared(file: Path, study: str, budget: dict[str, int | None], workers: int, submit: bool) -> None:
    """Run a comparison, write its page, and print what it says."""
    errors.require("book", "the page of a comparison")  # before anything is trained
    base = studies.get(study)
    methods = dmlrc.comparison.read_methods(file)
    if submit and (len(methods) != 1 or any(budget.values())):
        raise UsageError("--submit takes a file with one loss, and the study's own budget: leave the other options out")
    chosen = dmlrc.board.entry_study(base, methods[0]) if submit else dmlrc.comparison.comparison_study(base, **budget)
    for method in methods:
        for sentence in dmlrc.preflight.check_method(method, chosen):
            typer.echo(sentence, err=True)
    with _interruptible():
        dmlrc.comparison.run_comparison(chosen, base, methods, workers)

    from dmlrc.report.compare import page

    recorded = dmlrc.comparison.load_comparison(chosen, methods)
    folder = dmlrc.paths.home() / "compare" / f"{dmlrc.names.folded(base.name)}-{file.stem}"
    target = page.write_comparison(recorded, methods, folder)
    sentences, without = page.verdict_lines(recorded, methods)
    _print_lines(sentences)
    typer.echo(f"open {target}")
    if submit and not without:
        entry = dmlrc.board.submit(chosen, methods[0], file)
        typer.echo(f"entry {entry}: commit this folder, and send it as a pull request")
    if without:
        raise DmlrcError(f"{', '.join(without)} came to no result; the sentence above says why")


@app.command()
def single() -> None:
    """Build one page of the whole book, to print or save. It has all chapters of the one that was made last."""
    typer.echo(f"open {report.build.single_page()}")


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what a scheduler sends ends as cleanly as Ctrl-C
    try:
        yield
    except KeyboardInterrupt:
        raise DmlrcError("stopped; finished records are kept, and the same command goes on from here") from None


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(printable(line))


def main() -> None:
    """Entry point: a DmlrcError is printed as one sentence, and its exit code returned."""
    try:
        app()
    except DmlrcError as error:
        notes = map(printable, getattr(error, "__notes__", ()))
        print("\n".join([f"dmlrc: {error}", *notes]), file=sys.stderr)
        sys.exit(error.exit_code)
    except (OSError, MemoryError, RuntimeError) as error:  # of this machine, wherever it came up
        if isinstance(error, RuntimeError) and not errors.lacks_memory(error):
            raise
        print(f"dmlrc: {_refused(error)}", file=sys.stderr)
        sys.exit(1)


def _refused(error: OSError | MemoryError | RuntimeError) -> str:
    """Sentence on what the machine refuses, with the way out."""
    if not isinstance(error, OSError):
        return f"the memory does not suffice ({error or 'no room'}): take smaller images, or fewer workers"
    way_out = {
        errno.EMFILE: "raise the limit of open files (`ulimit -n 1024`)",
        errno.ENOSPC: "make room",
        errno.EACCES: "make it writable, or name other folders in DMLRC_HOME, DMLRC_RUNS and DMLRC_CACHE",
    }
    way_out[errno.EROFS] = way_out[errno.EPERM] = way_out[errno.EACCES]
    where = f" with {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{where}: {way_out.get(error.errno, 'look what the machine lacks, and try again')}"
