#!/usr/bin/env bash
# Runs tests with the oldest versions that pyproject.toml allows (requirements/minimum.txt), in an environment of its own
# under build/, with Everview as a wheel that .venv builds. Arguments go to pytest, in the place of the tests named below.
set -euo pipefail
cd "$(dirname "$0")/.."

minimum=build/minimum
tests=(tests/engine/test_words.py tests/engine/test_input.py tests/engine/test_dictionary.py tests/engine/test_meaning.py
  tests/engine/test_tables_read.py tests/engine/test_feeds.py tests/engine/test_regressions.py tests/engine/test_sums.py
  tests/sql/test_fallible.py tests/spark/test_types.py tests/spark/test_pipeline_plan.py)

if ! cmp -s requirements/minimum.txt "$minimum/.packages"; then
  rm -rf "$minimum"
  .venv/bin/python -m venv "$minimum"
  "$minimum/bin/python" -m pip install --quiet -r requirements/minimum.txt pytest hypothesis
  cp requirements/minimum.txt "$minimum/.packages"
fi
rm -rf "$minimum/wheel"
.venv/bin/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$minimum/wheel" .
"$minimum/bin/python" -m pip install --quiet --no-deps --force-reinstall "$minimum"/wheel/everview-*.whl
[ $# -eq 0 ] || tests=("$@")
exec "$minimum/bin/python" -m pytest -p no:cacheprovider "${tests[@]}"
