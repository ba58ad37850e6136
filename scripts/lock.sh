#!/usr/bin/env bash
# Resolves pyproject.toml (dependencies and the `dev` extra) and requirements/dev.in into requirements/dev.txt:
# every package pinned, with hashes, and no address of any registry. Versions already locked are kept;
# `scripts/lock.sh --upgrade` takes the newest.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=build/lock-tools
[ -x "$tools/bin/uv" ] || { "${PYTHON:-python3}" -m venv "$tools" && "$tools/bin/pip" install -q "uv==0.13.7"; }

"$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
    --extra dev --output-file requirements/dev.txt "$@" pyproject.toml requirements/dev.in >/dev/null

if grep -nE '://|--(extra-)?index-url|--find-links' requirements/dev.txt; then
    echo "requirements/dev.txt names an address: remove it before committing" >&2
    exit 1
fi
echo "wrote requirements/dev.txt ($(grep -c '==' requirements/dev.txt) packages)"
