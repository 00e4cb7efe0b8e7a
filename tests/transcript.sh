#!/usr/bin/env bash
# transcript.sh PAGE CARAVAN: prints the page with the output of every `$ command` in its ```console blocks put in. The command
# `caravan` is the program CARAVAN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ln -s "$2" "$folder/caravan"
export PATH=$folder:$PATH

console=
while IFS= read -r line; do
  case $line in
    '```console') console=1 && printf '%s\n' "$line" ;;
    '```') console= && printf '%s\n' "$line" ;;
    *)
      if [[ -z $console || $line == '$ '* ]]; then printf '%s\n' "$line"; fi
      if [[ -n $console && $line == '$ '* ]]; then bash -o pipefail -c "${line#'$ '}" </dev/null; fi
      ;;
  esac
done <"$1"
