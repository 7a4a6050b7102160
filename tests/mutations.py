"""Mistakes that a reader would notice, each made in a copy of the project: which do the tests catch?

    python tests/mutations.py            all of them, minutes each; weekly, not a part of `make test`
    python tests/mutations.py axes -v    those whose names hold a word, with what the tests said

The tests of a mutation are those that should notice; they must pass on the copy before it is changed. An old text that
is not there any more, since the code was rewritten, is an error: give the mutation its new place, or take it out.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTED = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
GOLDEN = "tests/test_golden.py"
CHAPTER_3 = (GOLDEN, "-k", "results or musgrave-t or musgrave-f3 or published")


@dataclass(frozen=True)
class Mutation:
    """tests: arguments of pytest. why: what a reader would see."""

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]


PAGE, FIGURES = "dmlrc/report/musgrave2020/page.py", "dmlrc/report/musgrave2020/figures.py"
REPLACED = ("tests/test_replaced_files.py", "-k", "replaced_are_noticed or lists_are_others")
ROWS = ("tests/report/test_ranking.py", "-k", "fallen or otherwise")
PIXELS = ("tests/data/test_data_decoding.py", "tests/data/test_data_cache.py", "-k", "too_many_pixels or at_a_time")
SENTENCES = ("tests/test_answers.py", "-k", "no_study_can or machine_refuses")
FIRST_PAGE = ("tests/report/test_guards.py", "-k", "00_introduction")

MUTATIONS = (
    Mutation(
        "plan-before-the-lock",
        "dmlrc/run.py",
        "    with records.running(study.name, [method.name for method in chosen]) as refusal:\n"
        "        todo = Plan(study, methods, models=save_models)\n",
        "    todo = Plan(study, methods, models=save_models)\n"
        "    with records.running(study.name, [method.name for method in chosen]) as refusal:\n",
        "two processes of one study make each other's finished runs again",
        ("tests/test_study.py", "-k", "another_process_ends"),
    ),
    Mutation(
        "loss-that-exits",
        "dmlrc/building.py",
        "except (Exception, SystemExit) as error:  # a loss",
        "except Exception as error:  # a loss",
        "a loss that calls sys.exit(0) ends a study as if all were well",
        ("tests/test_study.py", "-k", "ends_the_process"),
    ),
    Mutation(
        "trunk-scored-twice",
        "dmlrc/run.py",
        '(model or record["kind"] == PRETRAINED) and',
        "model and",
        "a record of the untrained trunk is set aside that nothing replaced",
        ("tests/test_study.py", "-k", "trunk_that_two"),
    ),
    Mutation(
        "caption-shown-in-each",
        "dmlrc/report/publish.py",
        "block.is_shown, shared = True, _printed(block.text)",
        "shared = _printed(block.text)",
        "what the captions of a block share stands over each of its tables",
        ("tests/report/test_publish.py", "-k", "captions_share"),
    ),
    Mutation(
        "alone-is-first",
        "dmlrc/report/results_table.py",
        '.transform("sum") > 1)',
        '.transform("sum") > 0)',
        "the only method of a table is bold and has rank 1",
        ("tests/report/test_results_table.py", "-k", "highest_is_best"),
    ),
    Mutation(
        "best-and-worst-swapped",
        "dmlrc/report/musgrave2020/winners.py",
        '"best": deciding["mean"].idxmax(),',
        '"best": deciding["mean"].idxmin(),',
        "the chapter on which loss wins calls the worst loss the best",
        ("tests/report/test_guards.py", "-k", "04_which_loss_wins"),
    ),
    Mutation(
        "axes-swapped",
        FIGURES,
        "mark(axis, row.theirs, row.ours, tip",
        "mark(axis, row.ours, row.theirs, tip",
        "our numbers stand on the axis of the published ones",
        (GOLDEN, "-k", "published-beside-ours"),
    ),
    Mutation(
        "tips-swapped",
        FIGURES,
        "{row.theirs:.1f} % on {dataset}, {row.ours:.1f} % here",
        "{row.ours:.1f} % on {dataset}, {row.theirs:.1f} % here",
        "pointing at a dot gives the published number as ours",
        (GOLDEN, "-k", "published-beside-ours"),
    ),
    Mutation(
        "published-number",
        "dmlrc/report/published_numbers/musgrave2020_results.csv",
        "P@1,51.05,",
        "P@1,51.50,",
        "the paper's Table 3 has another number than the paper",
        (GOLDEN, "-k", "musgrave-t3"),
    ),
    Mutation(
        "false-sentence",
        "notebooks/04_which_loss_wins.ipynb",
        "**Our order clearly follows a published one on cars only.**",
        "**Our order clearly follows a published one on birds only.**",
        "the chapter says of birds what is true of cars",
        ("tests/report/test_guards.py", "-k", "04_which_loss_wins"),
    ),
    Mutation(
        "first-page-title",
        "notebooks/00_introduction.ipynb",
        "# Tuned alike, newer losses are on average hardly better",
        "# Tuned alike, newer losses are on average far better",
        "the title of the book's first page says the opposite of what was found",
        FIRST_PAGE,
    ),
    Mutation(
        "first-page-data-sets",
        "notebooks/00_introduction.ipynb",
        "Of 91 pairs 36 differ on cars, at most one elsewhere ({",
        "Of 91 pairs 36 differ on birds, at most one elsewhere ({",
        "the first page says of birds what is true of cars",
        FIRST_PAGE,
    ),
    Mutation(
        "first-page-other-loss",
        "dmlrc/report/front_page.py",
        "CONTRASTIVE, TRIPLET = tables.CLASSICS",
        "TRIPLET, CONTRASTIVE = tables.CLASSICS",
        "the picture of the first page has the lead over the triplet loss",
        FIRST_PAGE,
    ),
    Mutation(
        "years-copied",
        "notebooks/06_claimed_gains.ipynb",
        "23 are printed to the digit",
        "29 are printed to the digit",
        "all baselines are called copied",
        ("tests/report/test_guards.py", "-k", "06_claimed"),
    ),
    Mutation(
        "minutes-of-a-search",
        PAGE,
        '(table["search_seconds"] / 60)',
        '(table["search_seconds"] / 600)',
        "a search costs a tenth of its time",
        ("tests/report/test_tables.py",),
    ),
    Mutation(
        "classics-among-the-newer",
        "dmlrc/report/tables.py",
        'newer = means.drop(index=list(CLASSICS), errors="ignore")',
        "newer = means",
        "the gain of the newer losses counts those of 2006 too",
        (GOLDEN, "tests/report/test_tables.py", "-k", "improvement or musgrave-f5"),
    ),
    Mutation(
        "test-arrays-of-training-images",
        "dmlrc/evaluation.py",
        '"test": (trained[0], test),',
        '"test": (trained[0], train[0]),',
        "histograms and spectra of the test half are those of training images",
        ("tests/test_papers.py", "-k", "arrays"),
    ),
    Mutation(
        "seed-without-its-number",
        "dmlrc/unit.py",
        "[unit.seed, kind, unit.number, fold]",
        "[unit.seed, kind, fold]",
        "all reruns are the same run, and the noise of seeds is 0",
        ("tests/test_study.py", "-k", "seed"),
    ),
    Mutation(
        "split-rounds-down",
        "dmlrc/data/splits.py",
        "validating = round(n / 5)",
        "validating = n // 5",
        "fewer classes validate than the paper's split has",
        ("tests/data/test_data_splits.py",),
    ),
    Mutation(
        "folds-begin-at-floor",
        "dmlrc/data/splits.py",
        "-(-i * n // folds) for",
        "i * n // folds for",
        "the folds of Cars196 are not those of the authors",
        ("tests/data/test_data_splits.py",),
    ),
    Mutation(
        "last-of-equal-trials",
        "dmlrc/search.py",
        "return max(complete,",
        "return max(reversed(complete),",
        "another setting is rerun than the search found first",
        ("tests/test_search.py",),
    ),
    Mutation(
        "bold-is-the-lowest",
        "dmlrc/report/tables.py",
        'result[group["mean"].idxmax()] = "best"',
        'result[group["mean"].idxmin()] = "best"',
        "the worst number of each column is printed bold",
        CHAPTER_3,
    ),
    Mutation(
        "verdict-without-interval",
        "dmlrc/report/claims/rule.py",
        "elif region.holds(estimate.low, estimate.high):",
        "elif region.holds(estimate.value, estimate.value):",
        "claims count as reproduced that the interval leaves open",
        (GOLDEN, "-k", "verdicts"),
    ),
    Mutation(
        "limit-of-a-hypothesis",
        "dmlrc/report/hypotheses/measures.py",
        "AGREEMENT = 0.53",
        "AGREEMENT = 0.35",
        "the first hypothesis is judged by another limit than was preregistered",
        (GOLDEN, "-k", "verdicts"),
    ),
    Mutation(
        "series-dropped",
        "dmlrc/report/musgrave2020/figures.py",
        "for row in part.assign(**100",
        "for row in part[1:].assign(**100",
        "a loss is missing from every panel",
        (GOLDEN, "-k", "published-beside-ours"),
    ),
    Mutation(
        "label-of-a-metric",
        "dmlrc/report/labels.py",
        '"precision_at_1": "P@1"',
        '"precision_at_1": "R@2"',
        "a column of P@1 is called R@2",
        CHAPTER_3,
    ),
    Mutation(
        "edited-loss-keeps-scores",
        "dmlrc/records/frames.py",
        'other = other[~other["method"].isin(replaced)]',
        'other = other[~other["method"].isin(set())]',
        "scores of a loss before its edit stand beside those after it",
        ("tests/test_records.py", "-k", "edited_loss_stands"),
    ),
    Mutation(
        "export-not-recovered",
        "dmlrc/records/committed.py",
        "for path in _files(before):\n        shutil.copy2(path, target)",
        "for path in []:\n        shutil.copy2(path, target)",
        "an export that was killed takes the committed records with it",
        ("tests/test_records.py", "-k", "killed_joins"),
    ),
    Mutation(
        "two-exports-at-once",
        "dmlrc/records/committed.py",
        'with paths.kept(lock_file(root, study), f"another process exports {study!r}: let it end", wait=60):',
        "with contextlib.nullcontext():",
        "two exports of one study leave none of its committed records",
        ("tests/test_records.py", "-k", "turned_away"),
    ),
    Mutation(
        "changed-number-passes",
        "dmlrc/records/files.py",
        "if sealed[_SEAL] != _checksum(contents) if _SEAL in sealed else not is_older:",
        "if not sealed[_SEAL] if _SEAL in sealed else not is_older:",
        "a number that was changed by hand in a record counts as a result",
        ("tests/test_damage.py", "-k", "trial"),
    ),
    Mutation(
        "cache-handed-out",
        "dmlrc/records/__init__.py",
        "list(map(copy.copy, frame[column]))",
        "list(frame[column])",
        "what one page does to the parameters that it read changes those of the next page",
        ("tests/test_damage.py", "-k", "next_reader"),
    ),
    # Drawn by chance, see tests/drawn_mutations.py
    Mutation(
        "products-twice",
        "dmlrc/report/tables.py",
        'SOP", 22634))}',
        'SOP", 45268))}',
        "the classes of the products' split are twice as many",
        ("tests/report/test_tables.py", "-k", "class_counts"),
    ),
    Mutation(
        "trial-0.436357",
        "dmlrc/report/published_numbers/musgrave2020_search_trials.csv",
        "CUB200,32,MS,39,0.436375,base",
        "CUB200,32,MS,39,0.436357,base",
        "a trial of the paper's searches has another score",
        ("tests/report/test_published.py", "-k", "digit"),
    ),
    Mutation(
        "trials-that-failed",
        "dmlrc/report/tables.py",
        'records.trials["state"] == "complete',
        'records.trials["state"] != "complete',
        "the sensitivity of a loss is that of the trials that failed",
        ("tests/report/test_tables.py", "-k", "sensitivity"),
    ),
    Mutation(
        "dots-moved",
        "dmlrc/report/speed.py",
        "peers.index + 1, peers",
        "peers.index - 1, peers",
        "every dot of the comparison of speeds stands two places to the left",
        ("tests/test_golden.py", "-k", "speed-peers"),
    ),
    Mutation(
        "depth-plus",
        "dmlrc/report/depth.py",
        '["mean"] - 1) for',
        '["mean"] + 1) for',
        "scores at each depth lie 200 points too high",
        ("tests/test_golden.py", "-k", "depth-order"),
    ),
    Mutation(
        "right-score-divided",
        "dmlrc/report/findings/figures.py",
        "axis.plot([pair.right,",
        "axis.plot([1 / pair.right,",
        "the line of a fault begins at another score than its dot",
        ("tests/test_golden.py", "-k", "findings-wrong-right"),
    ),
    Mutation(
        "column-moved",
        "dmlrc/report/tables.py",
        'table.insert(0, "search_seconds',
        'table.insert(1, "search_seconds',
        "the seconds of a search stand behind another column",
        ("tests/report/test_tables.py", "-k", "cost"),
    ),
    Mutation(
        "names-dropped",
        "dmlrc/report/fehervari2019/figures.py",
        "places.columns) - 1):",
        "places.columns) + 1):",
        "the lines of a figure have no names at their right end",
        ("tests/test_golden.py", "-k", "fehervari-bump"),
    ),
    Mutation(
        "claim-53.23",
        "dmlrc/report/published_numbers/claims_over_time.csv",
        ',53.32,"public',
        ',53.23,"public',
        "a published number has two digits swapped",
        ("tests/report/test_published.py", "-k", "digit"),
    ),
    Mutation(
        "trial-0.227980",
        "dmlrc/report/published_numbers/musgrave2020_search_trials.csv",
        "45,0.227908,gamma,26.611755926804157",
        "45,0.227980,gamma,26.611755926804157",
        "a trial of the paper's searches has another score",
        ("tests/report/test_published.py", "-k", "digit"),
    ),
    Mutation(
        "jsd-0.410",
        "dmlrc/report/published_numbers/oi2021_table1.csv",
        "JSD,0.401,fraction",
        "JSD,0.410,fraction",
        "a published number has two digits swapped",
        ("tests/report/test_published.py", "-k", "digit"),
    ),
    Mutation(
        "snr-0.02",
        "dmlrc/report/published_numbers/musgrave2020_results.csv",
        "CUB200,SNR,2019,Embedding,concatenated,RP,36.86,0.20",
        "CUB200,SNR,2019,Embedding,concatenated,RP,36.86,0.02",
        "a published interval is a tenth of what it is",
        ("tests/report/test_published.py", "-k", "digit"),
    ),
    Mutation(
        "trials-from-two",
        "dmlrc/report/tables.py",
        "] + 1, best",
        "] + 2, best",
        "the first trial of every search is called the second",
        ("tests/report/test_tables.py", "-k", "best_so_far"),
    ),
    Mutation(
        "ranked-list-69.38",
        "dmlrc/report/published_numbers/fehervari2019_results.csv",
        "1,69.83,74.00",
        "1,69.38,74.00",
        "a published number has two digits swapped",
        ("tests/report/test_published.py", "-k", "digit"),
    ),
    Mutation(
        "luck-of-none",
        "dmlrc/report/statistics/ranks.py",
        "(n > 1),",
        "(n < 1),",
        "no row has an interval, so that all are among the best",
        ("tests/report/test_statistics.py", "-k", "luck_of_seeds or without_a_mean"),
    ),
    Mutation(
        "luck-of-seeds-alone",
        "dmlrc/report/hypotheses/measures.py",
        "return None if compared is None or compared.luck == significance.SEEDS else compared",
        "return compared",
        "a hypothesis is judged as if a second search always found the same",
        ("tests/report/test_hypotheses.py", "-k", "nobody_has_searched_twice"),
    ),
    Mutation(
        "years-of-other-settings",
        "dmlrc/report/tables.py",
        'rows = by_method(frame, "precision_at_1").reset_index()',
        'rows = by_method(frame, "precision_at_1", "separated").reset_index()',
        "the trend over the years is drawn through scores of all settings but the one that is named",
        ("tests/report/test_tables.py", "-k", "years_stand"),
    ),
    Mutation(
        "rates-of-other-protocols",
        "dmlrc/report/tables.py",
        "if not is_search or study.protocol.name != protocol:",
        "if not is_search or study.protocol.name == protocol:",
        "the rate of a protocol is explained by the searches of the others",
        ("tests/report/test_tables.py", "-k", "rates_come"),
    ),
    # Of what nobody would see: wrong numbers that say nothing, and lost data
    Mutation(
        "file-of-the-loss-not-read",
        "dmlrc/records/fingerprint.py",
        "self.files.setdefault(module, names)",
        "pass",
        "a loss whose file imports another keeps its old scores when that one is edited",
        ("tests/test_fingerprint.py", "-k", "all_that_a_file_defines_belongs_to_its_losses"),
    ),
    Mutation(
        "generator-by-its-state",
        "dmlrc/records/fingerprint.py",
        "[kind, str(value.device), value.initial_seed()]",
        "[kind, str(value.device), value.get_state().tolist()]",
        "a loss with a generator of its own is trained anew at each call",
        ("tests/test_fingerprint.py", "-k", "what_a_loss_holds"),
    ),
    Mutation(
        "model-stays-behind",
        "dmlrc/records/underway.py",
        '(*records, *(path.with_suffix(".safetensors") for path in records))',
        "records",
        "a model that was kept stands beside the record of another rerun",
        ("tests/test_records.py", "-k", "set_aside_with_the_record"),
    ),
    Mutation(
        "board-reads-where-it-stands",
        "dmlrc/board/__init__.py",
        "capture_output=True, text=True, cwd=folder",
        "capture_output=True, text=True",
        "an entry that needs a file beside it passes, and fails for everybody else",
        ("tests/test_board.py", "-k", "where_the_command_is_given"),
    ),
    Mutation(
        "long-cache-names-by-their-end",
        "dmlrc/data/cache.py",
        "name = hashlib.sha256(name).hexdigest()[:16].encode() + name[-180:]",
        "name = name[-200:]",
        "mirrored features of a folder with a long name are the plain ones",
        ("tests/data/test_data_cache.py", "-k", "long_names"),
    ),
    Mutation(
        "lock-not-taken",
        "dmlrc/paths.py",
        "lock.acquire(timeout=wait)",
        "pass",
        "two processes run one method, and one loses what the other adds to meta.json",
        ("tests/test_records.py", "-k", "one_process_at_a_time"),
    ),
    Mutation(
        "rerun-without-scores",
        "dmlrc/records/schema.py",
        'self.kind != "trial" and not self.scores',
        'self.kind == "pretrained" and not self.scores',
        "a rerun whose scores are gone passes for a result",
        ("tests/test_records.py", "-k", "without_scores"),
    ),
    Mutation(
        "checksum-not-compared",
        "dmlrc/records/committed.py",
        "if hashlib.sha256(contents[name]).hexdigest() != checksum:",
        "if not contents[name]:",
        "a bit that turned on the disk is read as a number",
        ("tests/test_records.py", "-k", "damaged_tables"),
    ),
    Mutation(
        "records-shared",
        "dmlrc/records/__init__.py",
        "meta=copy.deepcopy(cached.meta))",
        "meta=cached.meta)",
        "what one reader of records changes, the next one reads",
        ("tests/test_records.py", "-k", "who_did_it"),
    ),
    Mutation(
        "double-precision-of-the-caller",
        "dmlrc/models/settings.py",
        "torch.set_default_dtype(torch.float32)",
        "pass",
        "a notebook that works in double precision gets other scores under the same name",
        ("tests/test_same_numbers.py", "-k", "caller"),
    ),
    Mutation(
        "autocast-of-the-caller",
        "dmlrc/models/settings.py",
        'torch.autocast("cpu", torch.bfloat16, enabled=False)',
        'torch.autocast("cpu", torch.bfloat16, enabled=torch.is_autocast_enabled("cpu"))',
        "a call within autocast trains in half precision",
        ("tests/test_same_numbers.py", "-k", "caller"),
    ),
    Mutation(
        "seed-of-numpy",
        "dmlrc/training/__init__.py",
        "    np.random.seed(seed)\n",
        "",
        "a loss that draws from NumPy gives other scores each time",
        ("tests/test_same_numbers.py", "-k", "numpy"),
    ),
    Mutation(
        "numpy-not-given-back",
        "dmlrc/training/__init__.py",
        "np.random.set_state(states[0])",
        "pass",
        "a study sets the caller's random numbers back to its own seed",
        ("tests/test_same_numbers.py", "-k", "numpy"),
    ),
    Mutation(
        "another-loss-in-the-workers",
        "dmlrc/executors/__init__.py",
        "and paths.is_own(file)",
        "and not paths.is_own(file)",
        "with two workers the file on the disk trains, not what was imported",
        ("tests/test_same_numbers.py", "-k", "edited_since"),
    ),
    Mutation(
        "nothing-to-train",
        "dmlrc/preflight.py",
        "    if not torch.stack(first[1]).any():",
        "    if not first:",
        "a loss that is always 0 is searched, and gets a rank",
        ("tests/test_preflight.py", "-k", "zero"),
    ),
    Mutation(
        "metric-by-its-name",
        "dmlrc/studies/scoring.py",
        "{called}@{fingerprint.code(metric)}",
        "{called}@1",
        "scores of a metric before its edit stand beside those after it",
        ("tests/studies/test_own_metrics.py", "-k", "another_code"),
    ),
    Mutation(
        "any-format",
        "dmlrc/data/decoding.py",
        "Image.open(file, formats=readable())",
        "Image.open(file)",
        "a PostScript file called .jpg starts Ghostscript",
        ("tests/data/test_data_decoding.py", "-k", "another_program"),
    ),
    # A name for two inputs, rows that are left out or not alike, names and sizes that no one bears
    Mutation(
        "files-by-their-name",
        "dmlrc/inputs.py",
        "if now.get(name, digest) != digest:",
        "if now.get(name, digest) is None:",
        "a study goes on with another weights file of the same name",
        REPLACED,
    ),
    Mutation(
        "images-by-their-set",
        "dmlrc/data/identity.py",
        '            f"images of {name!r}": _digest_of(home, listing),\n',
        "",
        "a study goes on with other images under the name of its data set",
        REPLACED,
    ),
    Mutation(
        "features-of-another-mean",
        "dmlrc/inputs.py",
        "(trunk.state_dict(keep_vars=True) | dict(trunk.named_buffers())).items()",
        "trunk.state_dict(keep_vars=True).items()",
        "features that were computed with another mean and deviation are taken for today's",
        ("tests/test_inputs.py", "-k", "mean_and_deviation or main_directions"),
    ),
    Mutation(
        "trunk-not-standardised",
        "dmlrc/evaluation.py",
        "standard = StandardScaler().fit_transform(features.cpu().numpy())",
        "standard = features.cpu().numpy()",
        "the untrained trunk, with which training is compared, scores otherwise than the paper's",
        ("tests/test_inputs.py", "-k", "mean_and_deviation or main_directions"),
    ),
    Mutation(
        "fallen-left-out",
        "dmlrc/report/ranking.py",
        "for name, state in tables.fallen(records).items()]\n    rows = _beside",
        "for name, state in ()]\n    rows = _beside",
        "a method that diverged is in no table",
        ROWS,
    ),
    Mutation(
        "best-of-the-survivors",
        "dmlrc/report/photos/answer.py",
        "count=len(trained) + len(fallen)",
        "count=len(trained)",
        "best of 13 losses is said where 14 ran",
        ROWS,
    ),
    Mutation(
        "settings-not-beside-their-row",
        "dmlrc/report/about.py",
        "            if value != protocol.get(name)\n",
        "            if name not in protocol\n",
        "a method at another rate and size is ranked as an equal, and nothing says so",
        ROWS,
    ),
    Mutation(
        "two-yardsticks",
        "dmlrc/report/photos/answer.py",
        '_of(records, "map_at_r", "separated"), _of',
        '_of(records, "map_at_r"), _of',
        "what training gains is that of four models joined",
        ("tests/report/test_photos_page.py", "-k", "trunk_alone or one_model_against_one"),
    ),
    Mutation(
        "comparison-in-the-table",
        "dmlrc/comparison.py",
        'name=f"{study.name}{names.COMPARED}",',
        "name=study.name,",
        "a loss of one's own moves the ranks of the study that it is compared with",
        ("tests/test_comparison.py", "-k", "moves_no_rank"),
    ),
    Mutation(
        "written-over",
        "dmlrc/paths.py",
        "if os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):",
        "if os.path.lexists(target) and not target.is_dir():",
        "--csv removes a folder with other files",
        ("tests/test_exports.py", "-k", "csv"),
    ),
    Mutation(
        "any-number-of-pixels",
        "dmlrc/data/decoding.py",
        "        raise Image.DecompressionBombError\n",
        "        pass\n",
        "an image of 300 kB fills the memory",
        PIXELS,
    ),
    Mutation(
        "large-images-at-once",
        "dmlrc/data/decoding.py",
        "return _ALONE if image.width * image.height > LARGE else nullcontext()",
        "return nullcontext()",
        "six large images take six times the memory of one",
        PIXELS,
    ),
    Mutation(
        "a-study-called-index",
        "dmlrc/protocol.py",
        "if name in RESERVED:",
        "if name in ():",
        "the page of a study takes the place of the book's first",
        SENTENCES,
    ),
    Mutation(
        "memory-of-torch",
        "dmlrc/errors.py",
        "allocate memory|out of memory",
        "out of room",
        "a network too large for the machine ends in a traceback",
        SENTENCES,
    ),
    Mutation(
        "batches-beyond-the-images",
        "dmlrc/data/batches.py",
        "np.all((batch >= 0) & (batch < self._images))",
        "np.all(batch >= 0)",
        "a sampler of one's own that counts wrongly ends in a raw error, minutes later",
        ("tests/data/test_data_batches.py", "-k", "ones_own"),
    ),
    Mutation(
        "image-in-two-parts",
        "dmlrc/data/folder.py",
        "if twice := parts.keys() & set(named):",
        "if twice := set():",
        "an image that a split names twice is in the part of the last line, without a word",
        ("tests/data/test_own_split.py", "-k", "split_that_is_none"),
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="of the names of mutations; default all")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the tests said")
    given = parser.parse_args()
    chosen = [each for each in MUTATIONS if not given.words or any(word in each.name for word in given.words)]
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder) / "dmlrc")
        found = [caught(copy, each, given.verbose) for each in chosen]
    print(f"{sum(found)} of {len(found)} caught")
    return int(not all(found))


def copied(target: Path) -> Path:
    """The files of the project as they are now; records, which no mutation changes, as a link."""
    listed = subprocess.run([*LISTED, "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if not name.startswith("results/") and (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    (target / "results").symlink_to(ROOT / "results")
    return target


def caught(copy: Path, mutation: Mutation, verbose: bool) -> bool:
    """Whether the tests that pass on the copy fail once it is changed; it is put back."""
    path = copy / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        raise SystemExit(f"{mutation.name}: its old text stands {text.count(mutation.old)} times in {mutation.file}")
    if (code := tested(copy, mutation.tests)[0]) != 0:
        raise SystemExit(f"{mutation.name}: its tests end with {code} before anything is changed")
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    code, said = tested.__wrapped__(copy, mutation.tests)
    path.write_text(text, encoding="utf-8")
    print(f"{'caught' if code else 'NOT CAUGHT':10}  {mutation.name}: {mutation.why}", flush=True)
    if verbose:
        print(said)
    return code != 0


@cache
def tested(copy: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """The status of pytest, 0 where all pass, and the end of what it said. Cached of the copy that nobody changed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    return done.returncode, "\n".join((done.stdout + done.stderr).splitlines()[-15:])


if __name__ == "__main__":
    sys.exit(main())
