#!/usr/bin/env bash
# check_includes.sh ROOT: every #include inside caravan/ follows the arrows of cmake/layers.txt, and
# caravan/autodiff, which derives every gradient from the op table, names no op and writes no spec.
# check_includes.sh --self-test: shows that it reports what it should.
set -euo pipefail

check() {
  local root=$1
  cd "$root"
  local files
  # What is in a folder prelude/ is C of generated text.
  mapfile -t files < <(find caravan -mindepth 2 -name prelude -prune -o \( -name '*.h' -o -name '*.cpp' \) -print | LC_ALL=C sort)
  awk '
    function report(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; ++mistakes }
    function folder(path) { sub(/\/[^\/]*$/, "", path); sub(/^caravan\//, "", path); return path }

    # The line without its // comment; a // inside a string literal stays.
    function code(line,    rest, kept) {
      rest = line
      kept = ""
      while (match(rest, /"([^"\\]|\\.)*"|\/\//)) {
        if (substr(rest, RSTART, 2) == "//") return kept substr(rest, 1, RSTART - 1)
        kept = kept substr(rest, 1, RSTART + RLENGTH - 1)
        rest = substr(rest, RSTART + RLENGTH)
      }
      return kept rest
    }

    FILENAME == "cmake/layers.txt" {
      if (!/^[a-z]/) next
      split($0, row, ":")
      layer = row[1]
      known[layer] = 1
      uses[layer] = " "
      count = split(row[2], direct, " ")
      for (i = 1; i <= count; ++i) {
        if (!(direct[i] in known)) report("layer " layer " uses " direct[i] ", which is not on a line above it")
        uses[layer] = uses[layer] direct[i] uses[direct[i]]
      }
      next
    }

    FNR == 1 {
      layer = folder(FILENAME)
      if (!(layer in known)) report("folder caravan/" layer " is not a layer of cmake/layers.txt")
    }

    /^[ \t]*#[ \t]*include/ {
      path = $0
      sub(/^[ \t]*#[ \t]*include[ \t]*/, "", path)
      quoted = path ~ /^"/
      path = substr(path, 2)
      sub(/[">].*/, "", path)
      if (path !~ /^caravan\//) {
        if (quoted) report("\"" path "\" should be written from the repository root: \"caravan/...\"")
        next
      }
      used = folder(path)
      if (used != layer && index(uses[layer], " " used " ") == 0)
        report("layer " layer " may not include \"" path "\"")
      next
    }

    layer == "autodiff" {
      line = code($0)
      if (line ~ /(^|[^A-Za-z0-9_])Op::|using enum Op([^A-Za-z0-9_]|$)/)
        report("autodiff names an op; gradients come from the rows of the op table")
      if (line ~ /"([^"\\]|\\.)*=>([^"\\]|\\.)*"/)
        report("autodiff writes a spec; gradients are built from the relation they invert")
    }

    END { if (mistakes) { printf "%d wrong line%s\n", mistakes, mistakes == 1 ? "" : "s"; exit 1 } }
  ' cmake/layers.txt "${files[@]}"
}

self_test() {
  local tree
  tree=$(mktemp -d)
  trap "rm -rf '$tree'" EXIT
  mkdir -p "$tree/cmake"
  printf '%s\n' 'base:' 'ops: base' 'tensor: ops' 'autodiff: tensor' 'backend/interp: ops' 'data: base' >"$tree/cmake/layers.txt"

  # expect TEXT FILE LINE: a tree whose only source is FILE with LINE is refused with TEXT, or accepted where TEXT is empty.
  local failures=0
  expect() {
    local output status=0
    rm -rf "$tree/caravan"
    mkdir -p "$tree/$(dirname "$2")"
    printf '%s\n' "$3" >"$tree/$2"
    output=$( (check "$tree") 2>&1) || status=$?
    if [[ -z $1 && $status -eq 0 ]] || [[ -n $1 && $status -eq 1 && $output == *"$2:1: "*"$1"* ]]; then return; fi
    printf 'in %s the line %s\n  should be %s\n  but got: %s\n' "$2" "$3" "${1:-accepted}" "$output"
    failures=$((failures + 1))
  }

  expect '' caravan/ops/a.h '#include "caravan/ops/b.h"'
  expect '' caravan/tensor/a.h '#include "caravan/ops/b.h"'
  expect '' caravan/autodiff/a.h '#include "caravan/base/b.h"'
  expect '' caravan/backend/interp/a.cpp '#include "caravan/backend/interp/b.h"'
  expect '' caravan/ops/a.h '#include <vector>'
  expect 'layer base may not include "caravan/ops/b.h"' caravan/base/a.h '#include "caravan/ops/b.h"'
  expect 'layer data may not include "caravan/tensor/b.h"' caravan/data/a.cpp '  # include <caravan/tensor/b.h>'
  expect 'layer backend/interp may not include' caravan/backend/interp/a.cpp '#include "caravan/tensor/b.h"'
  expect 'layer ops may not include "caravan/caravan.h"' caravan/ops/a.cpp '#include "caravan/caravan.h"'
  expect 'from the repository root' caravan/ops/a.cpp '#include "op.h"'
  expect '' caravan/ops/prelude/a.h '#include "b.h"'
  expect 'is not a layer' caravan/stray/a.cpp '#include <vector>'
  expect 'names an op' caravan/autodiff/a.cpp '  return Op::mul;'
  expect '' caravan/autodiff/a.cpp '  return LoopOp::mul;  // not Op::mul'
  expect '' caravan/tensor/a.cpp '  return Op::mul;'
  expect 'writes a spec' caravan/autodiff/a.cpp '  return einsum("ij;jk=>ik", a, b);'
  expect '' caravan/autodiff/a.cpp '  return a;  // the inverse of "ij;jk=>ik"'
  expect 'writes a spec' caravan/autodiff/a.cpp '  f("http://x", "i=>");'
  if ((failures)); then exit 1; fi
  echo "every wrong arrow is reported"
}

case ${1:-} in
  --self-test) self_test ;;
  ?*) check "$1" ;;
  *) echo "usage: check_includes.sh ROOT | --self-test" >&2; exit 2 ;;
esac
