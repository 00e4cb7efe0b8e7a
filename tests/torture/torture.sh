#!/usr/bin/env bash
# torture.sh BUILD MINUTES [PART...]: does to Caravan what a machine, another user or a network can do to it, again and again.
# `./dev torture` builds what it needs and runs it. BUILD is a folder of CMake, as build/release.
#
# A part is a file of this folder that sources lib.sh. Each prints one line: how many tries, how many failures, how many seconds.
# In ten minutes a part makes the number of tries that it names itself, and in other times accordingly more or fewer; one that is
# slower than it should be on this machine stops when its share of the time is over. What failed is kept in build/torture.
set -euo pipefail

parts=(kills ranks networks faults cold plants signals disk page files programs)
declare -A share=([kills]=2 [ranks]=2 [networks]=2 [faults]=3 [cold]=2 [plants]=1 [signals]=1 [disk]=1 [page]=2 [files]=2 [programs]=6)

fail() {
  echo "torture: $*" >&2
  exit 1
}

build=$(realpath "$1") minutes=$2
shift 2
[[ $minutes =~ ^[1-9][0-9]*$ ]] || fail "--minutes needs a whole number from 1"
chosen=("$@")
((${#chosen[@]})) || chosen=("${parts[@]}")
for part in "${chosen[@]}"; do
  [[ -n ${share[$part]:-} ]] || fail "there is no part '$part'; there are: ${parts[*]}"
done

shares=0
for part in "${chosen[@]}"; do shares=$((shares + share[$part])); done

seed=${TORTURE_SEED:-$((RANDOM + 1))}
echo "about $minutes minutes; the moments and the damage are drawn from TORTURE_SEED=$seed"
kept=$PWD/build/torture
rm -rf "$kept"
mkdir -p "$kept"
printf '%-10s %7s %9s %8s\n' part tries failures seconds
failed=0
for part in "${chosen[@]}"; do
  # A part alone has all the time, and makes as many tries as in a whole run of so many minutes.
  TORTURE_BUILD=$build TORTURE_SOURCES=$PWD TORTURE_KEPT=$kept TORTURE_PART=$part TORTURE_SEED=$seed \
    TORTURE_SECONDS=$((60 * minutes * share[$part] / shares)) \
    TORTURE_PERCENT=$((10 * minutes)) \
    bash "$(dirname "$0")/$part.sh" || failed=$((failed + 1))
done
if ((failed)); then fail "$failed parts failed; what failed is in $kept"; fi
echo "no failures"
