#!/usr/bin/env bash
# The first hour of a new user with no clone: the wheel in an environment of its own, an empty folder, sixty photographs
# of which three are bad, and the commands and the Python of the README. Some 15 minutes on 2 cores; weekly.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset "${!DMLRC_@}" PYTHONPATH
"$root/.venv/bin/uv" build --quiet --wheel --out-dir "$work/dist" "$root"
"$root/.venv/bin/uv" venv --quiet --python "$root/.venv/bin/python" "$work/venv"
"$root/.venv/bin/uv" pip install --quiet --compile-bytecode --python "$work/venv" \
	--constraint "$root/requirements.lock" "$(echo "$work"/dist/*.whl)[search]"
export PATH=$work/venv/bin:$PATH DMLRC_CACHE=$work/cache
readme() { sed -n "/^\`\`\`python\$/,/^\`\`\`\$/p" "$root/README.md" | grep -v '^```' | sed -n "$1"; }
fails() { # WORDS COMMAND...: it ends with an error that has these words, and without a traceback
	local words=$1 said
	shift
	if said=$("$@" 2>&1); then echo "no error: $*" && exit 1; fi
	grep -qF "$words" <<<"$said" && ! grep -q Traceback <<<"$said" || { echo "$* says: $said" && exit 1; }
}
set -x
mkdir "$work/user" && cd "$work/user"
dmlrc --help && dmlrc --version && dmlrc methods && dmlrc data list && dmlrc study list && dmlrc study list --all
python "$root/tests/photographs.py" photos >bad
while read -r file; do fails "$PWD/$file" dmlrc photos photos --check; done <bad
xargs rm <bad
dmlrc photos photos --check
dmlrc photos photos --trials 1 --reruns 1
readme '/my_loss.py/,/return/p' >my_loss.py
fails "with its extra 'book'" dmlrc compare my_loss.py --study photos
fails "with its extra 'book'" dmlrc power --study photos --difference 2
fails DMLRC_HOME dmlrc book
"$root/.venv/bin/uv" pip install --quiet --python "$work/venv" --constraint "$root/requirements.lock" \
	"$(echo "$work"/dist/*.whl)[book]"
fails DMLRC_HOME dmlrc book photos
dmlrc compare my_loss.py --study photos
dmlrc compare --list
dmlrc study run photos --set embedding_dim=64 --as wide --method triplet --save-models
fails "did you mean 'adam'" dmlrc study run photos --set optimizer=adamm --as other
dmlrc study show wide | tr '\n' ' ' | grep -F 'embedding size 64'
dmlrc study check
dmlrc study export photos --csv csv
dmlrc study export photos --optuna journal.log
dmlrc embed runs/wide/triplet/0-rerun-000.safetensors photos
readme '/numpy/,$p' | python -
