#!/usr/bin/env bash
# Runs all tests in two processes, one for each of two cores: what starts Spark, and everything else, with the shards that
# are played without it and a part of those of Spark, so that both take about as long. The first one's output comes as it
# runs, the second one's after it.
set -euo pipefail
cd "$(dirname "$0")/.."

python=.venv/bin/python
other_spark=(tests/spark/test_cluster.py tests/spark/test_loading.py)
others=$(mktemp)
trap 'rm -f "$others"' EXIT

{
  "$python" -m pytest --color=auto tests --ignore=tests/spark --ignore=tests/cli -p no:cacheprovider &&
    "$python" -m pytest --color=auto "${other_spark[@]}" -p no:cacheprovider
} >"$others" 2>&1 &
pid=$!
status=0
"$python" -m pytest tests/spark tests/cli "${other_spark[@]/#/--ignore=}" || status=$?
wait "$pid" || status=$?
cat "$others"
exit "$status"
