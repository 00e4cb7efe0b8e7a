#!/usr/bin/env bash
# links.sh: every link of a page to another page, a picture or a heading leads somewhere. Links into the network are not followed.
set -euo pipefail
cd "$(dirname "$0")/.."

# The anchors of a page, as GitHub makes them of its headings.
anchors() {
  awk '/^```/ { code = !code } /^#+ / && !code { sub(/^#+ +/, ""); print tolower($0) }' "$1" | sed -E 's/[^a-z0-9_ -]//g; s/ /-/g'
}

wrong=0
mapfile -t pages < <(git ls-files --cached --others --exclude-standard '*.md' 2>/dev/null || find . -name '*.md' -not -path './build/*')
for page in "${pages[@]}"; do
  while IFS= read -r link; do
    path=${link%%#*} anchor=
    if [[ $link == *'#'* ]]; then anchor=${link#*#}; fi
    target=$page
    if [[ -n $path ]]; then target=$(dirname "$page")/$path; fi
    if [[ ! -e $target ]]; then
      echo "$page: there is no $link" >&2
      wrong=1
    elif [[ -n $anchor && $target == *.md ]] && ! grep -qxF -- "$anchor" <(anchors "$target"); then
      echo "$page: there is no heading for $link" >&2
      wrong=1
    fi
  done < <(awk '/^```/ { code = !code } !code && !/^    [^*-]/' "$page" | sed 's/`[^`]*`//g' | grep -oE '\]\([^)]+\)' | sed -E 's/^\]\((.*)\)$/\1/' | grep -vE '^(https?|mailto):' || true)
done
exit $wrong
