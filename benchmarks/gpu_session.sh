#!/usr/bin/env bash
# One unattended session on a machine with a GPU: tests, benchmarks, then as much of a study as fits.
#   benchmarks/gpu_session.sh STUDY MINUTES OUT
# Records of an earlier session, OUT/records.tar, are taken up again; what this session adds is packed there anew.
# Wheels that the machine lacks (optuna, cloudpickle) may lie in .whl/.
set -uo pipefail
cd "$(dirname "$0")/.."
study=$1 minutes=$2 out=$3
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
if compgen -G ".whl/*.whl" > /dev/null; then
    site=$(mktemp -d)
    python3 -m pip install --quiet --no-index --no-deps --target "$site" .whl/*.whl
    export PYTHONPATH=$site:${PYTHONPATH:-}
fi
export PYTHONPATH=$PWD:${PYTHONPATH:-} DMLRC_RUNS=$out/runs
mkdir -p "$DMLRC_RUNS"
[ -f "$out/records.tar" ] && tar -xf "$out/records.tar" -C "$DMLRC_RUNS"
python3 -m pytest -q -m gpu tests 2>&1 | tee "$out/tests.log"
python3 -m benchmarks 2>/dev/null | tee "$out/benchmarks.md"
timeout --signal=INT --kill-after=30 "$((minutes * 60))" \
    python3 -c "from dmlrc.cli import main; main()" study run "$study" --workers "$(nproc)" 2>&1 | tail -c 2000 | tee "$out/study.log"
tar -cf "$out/records.tar" -C "$DMLRC_RUNS" . && rm -rf "$DMLRC_RUNS"
