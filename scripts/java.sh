#!/usr/bin/env bash
# Finds a Java of at least version 17 (Spark needs it), installing one where it may: prints its home folder.
# Looks in JAVA_HOME, then on PATH. Usage: export JAVA_HOME="$(scripts/java.sh)"
set -euo pipefail

wanted=17

say() { echo "java.sh: $*" >&2; }

# Prints the home of the java command given, if its version will do.
home_if_good() {
    local java=$1 settings version home
    settings=$("$java" -XshowSettings:properties -version 2>&1) || return 1
    version=$(sed -n 's/^ *java\.specification\.version = //p' <<<"$settings")
    home=$(sed -n 's/^ *java\.home = //p' <<<"$settings")
    if [[ ! $version =~ ^[0-9]+$ ]] || ((version < wanted)); then
        say "$java is Java ${version:-of unknown version}, too old: $wanted or later is needed"
        return 1
    fi
    echo "$home"
}

find_java() {
    if [[ -n ${JAVA_HOME:-} ]]; then
        if [[ -x $JAVA_HOME/bin/java ]]; then
            home_if_good "$JAVA_HOME/bin/java" && return
        else
            say "JAVA_HOME is $JAVA_HOME, but there is no bin/java in it"
        fi
    fi
    local java
    java=$(command -v java) && home_if_good "$java"
}

find_java && exit

if command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
    say "no Java $wanted here: installing openjdk-$wanted-jre-headless"
    export DEBIAN_FRONTEND=noninteractive
    if apt-get update -qq >&2 && apt-get install -y -qq --no-install-recommends "openjdk-$wanted-jre-headless" >&2; then
        # Beside an older Java that JAVA_HOME or PATH may still name.
        for java in /usr/lib/jvm/java-"$wanted"-openjdk*/bin/java; do
            [[ -x $java ]] && home_if_good "$java" && exit
        done
    fi
    say "the installation failed"
fi

cat >&2 <<MESSAGE
java.sh: Java $wanted or later is needed and was not found. Install it, then try again:
    Debian, Ubuntu:  sudo apt-get install openjdk-$wanted-jre-headless
    Fedora:          sudo dnf install java-$wanted-openjdk-headless
    macOS:           brew install openjdk@$wanted
If it is installed elsewhere, set JAVA_HOME to its home folder (the one that has bin/java in it).
MESSAGE
exit 1
