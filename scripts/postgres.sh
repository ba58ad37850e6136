#!/usr/bin/env bash
# Finds a PostgreSQL server (the tests start one), installing Debian's where it may: prints the folder of its programs.
# Looks in PG_BIN, then in Debian's folders, then on PATH. Usage: "$(scripts/postgres.sh)/pg_ctl" --version
set -euo pipefail

say() { echo "postgres.sh: $*" >&2; }

# Prints the folder if it has what a server needs.
folder_if_good() {
    local folder=$1
    [[ -x $folder/initdb && -x $folder/pg_ctl && -x $folder/postgres ]] && echo "$folder"
}

find_server() {
    local folder
    if [[ -n ${PG_BIN:-} ]]; then
        folder_if_good "$PG_BIN" && return
    fi
    # Newest first.
    while read -r folder; do
        folder_if_good "$folder" && return
    done < <(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV)
    if command -v pg_ctl >/dev/null; then
        folder_if_good "$(dirname "$(readlink -f "$(command -v pg_ctl)")")" && return
    fi
    return 1
}

find_server && exit

if [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null; then
    say "installing Debian's postgresql ..."
    # The tests start a server of their own: no cluster of the system's.
    mkdir -p /etc/postgresql-common/createcluster.d
    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/everview.conf
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends postgresql; } >&2
    find_server && exit
fi

say "no PostgreSQL server found: install one (Debian: apt-get install postgresql), or name its programs' folder in PG_BIN"
exit 1
