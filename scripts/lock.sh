#!/usr/bin/env bash
# Resolves pyproject.toml (dependencies and the `dev` extra) and requirements/dev.in into requirements/dev.txt, and what
# each system of the benchmarks needs, benchmarks/rivals/<system>.in, into the .txt beside it: every package pinned, with
# hashes, and no address of any registry. requirements/workloads.in names packages that are only read: without theirs. Versions already locked are kept; `scripts/lock.sh --upgrade` takes the newest.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=build/lock-tools
[ -x "$tools/bin/uv" ] || { "${PYTHON:-python3}" -m venv "$tools" && "$tools/bin/pip" install -q "uv==0.13.7"; }

# lock <what is written> <what is read and options>
lock() {
    local output=$1
    shift
    "$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
        --output-file "$output" "$@" >/dev/null
    if grep -nE '://|--(extra-)?index-url|--find-links' "$output"; then
        echo "$output names an address: remove it before committing" >&2
        exit 1
    fi
    echo "wrote $output ($(grep -c '==' "$output") packages)"
}

lock requirements/dev.txt --extra dev "$@" pyproject.toml requirements/dev.in
lock requirements/workloads.txt --no-deps "$@" requirements/workloads.in
for needed in benchmarks/rivals/*.in; do
    lock "${needed%.in}.txt" "$@" "$needed"
done
