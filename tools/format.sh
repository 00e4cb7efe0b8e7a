#!/usr/bin/env bash
# format.sh -i | --check: formats all sources, or tells which are not formatted.
set -euo pipefail
version=$(clang-format --version 2>/dev/null || true)
if [[ $version != *"version 14."* ]]; then
  echo "skipped: no clang-format 14 (${version:-there is none})"
  exit
fi
options=(-i)
[[ $1 != --check ]] || options=(--dry-run --Werror)
find apps bench caravan examples tests tools -name '*.h' -print0 -o -name '*.cpp' -print0 | xargs -0 -n 100 clang-format "${options[@]}"
