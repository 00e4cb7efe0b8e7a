#!/usr/bin/env bash
# transcript.sh PAGE CARAVAN: runs the commands of a page, in their order and in one empty folder, and prints the page as it should be.
#
#   ```console   `$ command` lines, each with what it prints: the output is put in
#   ```sh        commands that must succeed; what they print depends on the machine or the moment, so the page does not show it
#   ```text      what is not run, such as a command that needs a network or never ends
#   ```cpp FILE  the contents of FILE, a path of the repository, are put in
#
# Commands in a block without a language are refused: a reader could not tell whether anybody has tried them. The command `caravan` is
# the program CARAVAN.
set -euo pipefail
page=$(realpath "$1")
sources=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/home" "$work/here"
ln -s "$(realpath "$2")" "$work/bin/caravan"
export PATH=$work/bin:$PATH HOME=$work/home
unset CARAVAN_DATA XDG_CACHE_HOME XDG_STATE_HOME
cd "$work/here"

fail() {
  echo "$page:$number: $*" >&2
  exit 1
}

number=0
language=
inside=
commands=
while IFS= read -r line; do
  number=$((number + 1))
  if [[ $line == '```'* ]]; then
    if [[ -n $inside && $language == sh ]]; then
      bash -euo pipefail -c "$commands" </dev/null >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "the commands above failed"; }
    fi
    if [[ -n $inside ]]; then inside= language=; else inside=1 language=${line#'```'}; fi
    commands=
    printf '%s\n' "$line"
    if [[ $language == 'cpp '* ]]; then cat "$sources/${language#cpp }"; fi
    continue
  fi
  if [[ $language == 'cpp '* ]]; then continue; fi
  if [[ $language == console ]]; then
    if [[ $line != '$ '* ]]; then continue; fi
    printf '%s\n' "$line"
    bash -o pipefail -c "${line#'$ '}" </dev/null || fail "the command failed"
    continue
  fi
  printf '%s\n' "$line"
  if [[ $language == sh ]]; then commands+=$line$'\n'; fi
  if [[ -n $inside && -z $language && $line =~ ^('$ '|caravan |'./dev '|cc |cmake ) ]]; then
    fail "a command in a block without a language; is it sh, console or text?"
  fi
done <"$page"
