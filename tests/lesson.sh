#!/usr/bin/env bash
# lesson.sh READER PAGE PROGRAM [FILE..]: runs the program here and prints the page with its output put in (READER: tools/lesson.awk).
# A program may read files of the folder that CARAVAN_TEST_DATA names; where one is absent, this says `skipped: ..`.
set -euo pipefail
for file in "${@:4}"; do
  if [[ ! -f ${CARAVAN_TEST_DATA:-}/$file ]]; then
    echo "skipped: $file is not in the folder that CARAVAN_TEST_DATA names" >&2
    exit 77
  fi
  ln -sf "$(realpath "$CARAVAN_TEST_DATA/$file")" .
done
"$3" >output.txt
awk -f "$1" -v output=output.txt "$2"
