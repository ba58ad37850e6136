#!/usr/bin/env bash
# Runs all tests, or those that pytest's options choose, in three processes, which share the modules (tests/sharing.py):
# two cores, and one process more, as who tests Spark waits for it half of the time. The first one's output comes as it
# runs, that of the others after it.
set -euo pipefail
cd "$(dirname "$0")/.."

python=.venv/bin/python
claims=$(mktemp -d)
outputs=$(mktemp -d)
trap 'rm -rf "$outputs" "$claims"' EXIT

pids=()
for share in front back; do
  EVERVIEW_TEST_SHARE="$share:$claims" "$python" -m pytest --color=auto tests -p no:cacheprovider "$@" >"$outputs/$share" 2>&1 &
  pids+=($!)
done
status=0
EVERVIEW_TEST_SHARE="front:$claims" "$python" -m pytest tests "$@" || status=$?
for pid in "${pids[@]}"; do
  wait "$pid" || status=$?
done
cat "$outputs"/*
exit "$status"
