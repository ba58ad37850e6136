#!/usr/bin/env bash
# Runs all tests, or those that pytest's options choose, in two processes, one for each of two cores: they share the
# modules from both ends (tests/two_processes.py). The first one's output comes as it runs, the second one's after it.
set -euo pipefail
cd "$(dirname "$0")/.."

python=.venv/bin/python
claims=$(mktemp -d)
others=$(mktemp)
trap 'rm -rf "$others" "$claims"' EXIT

EVERVIEW_TEST_SHARE="back:$claims" "$python" -m pytest --color=auto tests -p no:cacheprovider "$@" >"$others" 2>&1 &
pid=$!
status=0
EVERVIEW_TEST_SHARE="front:$claims" "$python" -m pytest tests "$@" || status=$?
wait "$pid" || status=$?
cat "$others"
exit "$status"
