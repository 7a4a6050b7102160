#!/usr/bin/env bash
# Train on a GPU machine that is lent for minutes, bare and closed: no network, another Python, 64 MiB a transfer.
#
#   bash benchmarks/lent_gpu.sh setup FOLDER            once, and again with each part of the images
#   bash benchmarks/lent_gpu.sh check                   the GPU tests, and a chapter that trains a small study there
#   bash benchmarks/lent_gpu.sh run STUDY SECONDS       as many units as fit, two side by side; resumes what is in $OUT/runs
#   bash benchmarks/lent_gpu.sh run STUDY SECONDS --check    both, one after the other
#
# In FOLDER, each if it is there: whl/*.whl (what the machine lacks: pip download --no-deps for its Python), repo.bundle
# (git bundle create FOLDER/repo.bundle BASE..HEAD, so that records name their commit), and data/NAME/ with archives or
# weights as DMLRC_DATA has them. The cars' images come in two archives of 33 and 34 MiB: two calls of setup. Records lie
# in $OUT/runs (default ./out/runs): copy that folder to runs/ at home, then `dmlrc study export STUDY`.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=${OUT:-$PWD/out}
export OMP_NUM_THREADS=1 PYTHONPATH=$PWD:/tmp/dmlrc-site:$PWD/tests PYTHONUNBUFFERED=1
export DMLRC_DATA=/tmp/dmlrc-data DMLRC_CACHE=/tmp/dmlrc-cache DMLRC_RUNS=$OUT/runs
mkdir -p "$DMLRC_DATA" "$DMLRC_RUNS" /tmp/dmlrc-site/dmlrc-0.dist-info

check() {
	python3 -m pytest -m gpu tests/test_gpu.py -q -p no:cacheprovider
	python3 -m papermill --cwd notebooks notebooks/04_which_loss_wins.ipynb "$OUT/04_which_loss_wins.ipynb" \
		-p studies glyphs-smoke -p train True
}

case $1 in
setup)
	[ -d "$2/whl" ] && python3 -m pip install -q --no-index --no-deps --no-compile --upgrade --target /tmp/dmlrc-site "$2"/whl/*.whl
	# the version is read from an installed package, which a copy of the code is not
	printf 'Metadata-Version: 2.1\nName: dmlrc\nVersion: 0\n' > /tmp/dmlrc-site/dmlrc-0.dist-info/METADATA
	if [ -f "$2/repo.bundle" ]; then
		git fetch -q "$2/repo.bundle" HEAD && git reset -q --mixed FETCH_HEAD
	fi
	git ls-files -d -z | xargs -0 -r git update-index --skip-worktree # files that were left behind are no change
	[ -d "$2/data" ] && cp -r "$2"/data/. "$DMLRC_DATA"/
	git describe --always --dirty
	;;
check) check ;;
run)
	[ "${4-}" != --check ] || check
	python3 -m dmlrc study run "$2" --workers 2 --seconds "$3"
	;;
*) sed -n '2,13p' "$0" >&2 && exit 2 ;;
esac
