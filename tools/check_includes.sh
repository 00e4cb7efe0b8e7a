#!/usr/bin/env bash
# check_includes.sh ROOT: every #include inside caravan/ is an arrow of cmake/layers.txt and every arrow there is an #include;
# no arrow leads from the back to the front or round in a circle; HACKING.md draws them. And caravan/autodiff, which derives
# every gradient from the op table, names no op and writes no spec.
# check_includes.sh --draw ROOT: prints the drawing of HACKING.md.
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

    # A heading is [common], [front], [back] or [around]; a layer may use those of its own part and common ones, in [around] all.
    FILENAME == "cmake/layers.txt" {
      if (/^\[/) heading = substr($1, 2, length($1) - 2)
      if (!/^[a-z]/) next
      split($0, row, ":")
      layer = row[1]
      line_of[layer] = FNR
      part[layer] = heading
      uses[layer] = " " row[2] " "
      count = split(row[2], direct, " ")
      for (i = 1; i <= count; ++i) {
        if (!(direct[i] in part)) report("layer " layer " uses " direct[i] ", which is not on a line above it")
        else if (part[direct[i]] != heading && part[direct[i]] != "common" && heading != "around")
          report("layer " layer " of the part " heading " uses " direct[i] " of the part " part[direct[i]])
      }
      next
    }

    FNR == 1 {
      layer = folder(FILENAME)
      if (!(layer in part)) report("folder caravan/" layer " is not a layer of cmake/layers.txt")
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
      sub(/\/prelude$/, "", used)
      taken[layer, used] = 1
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

    END {
      for (layer in part) {
        count = split(uses[layer], direct, " ")
        for (i = 1; i <= count; ++i)
          if (!((layer, direct[i]) in taken)) {
            printf "cmake/layers.txt:%d: layer %s uses %s, but includes nothing of it\n", line_of[layer], layer, direct[i]
            ++mistakes
          }
      }
    }
    END { if (mistakes) { printf "%d wrong line%s\n", mistakes, mistakes == 1 ? "" : "s"; exit 1 } }
  ' cmake/layers.txt "${files[@]}"
}

# The layers by part, and their arrows but those that follow from others.
draw() {
  awk '
    function id(layer) { gsub(/\//, "_", layer); return layer }
    /^\[/ {
      if (heading) print "  end"
      heading = substr($1, 2, length($1) - 2)
      if (heading) print "  subgraph " heading
    }
    /^[a-z]/ {
      split($0, row, ":")
      layer = row[1]
      print "    " id(layer) (id(layer) == layer ? "" : "[\"" layer "\"]")
      count = split(row[2], direct, " ")
      for (i = 1; i <= count; ++i) reaches[layer] = reaches[layer] " " direct[i] reaches[direct[i]]
      for (i = 1; i <= count; ++i) {
        follows = 0
        for (j = 1; j <= count; ++j) follows = follows || index(reaches[direct[j]] " ", " " direct[i] " ")
        if (!follows) arrows = arrows "  " id(layer) " --> " id(direct[i]) "\n"
      }
    }
    BEGIN { print "flowchart BT" }
    END { printf "  end\n%s", arrows }
  ' "$1/cmake/layers.txt"
}

check_drawing() {
  diff <(awk '/^```mermaid$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$1/HACKING.md") <(draw "$1") ||
    { echo "HACKING.md does not draw cmake/layers.txt; tools/check_includes.sh --draw $1 prints what it should"; exit 1; }
}

self_test() {
  local tree
  tree=$(mktemp -d)
  trap "rm -rf '$tree'" EXIT
  mkdir -p "$tree/cmake"
  local layers=('[common]' 'base:' 'ops: base' '[front]' 'tensor: ops' 'autodiff: base' '[back]' 'backend/interp: ops' '[around]' 'data: base')
  # A source for each layer, with all its arrows.
  make_tree() {
    local row layer used
    rm -rf "$tree/caravan"
    printf '%s\n' "${layers[@]}" >"$tree/cmake/layers.txt"
    for row in "${layers[@]}"; do
      layer=${row%%:*}
      [[ $row == *:* ]] || continue
      mkdir -p "$tree/caravan/$layer"
      for used in ${row#*:}; do echo "#include \"caravan/$used/all.h\""; done >"$tree/caravan/$layer/all.h"
    done
  }

  # expect TEXT FILE LINE: with LINE in FILE the tree is refused with TEXT, or accepted where TEXT is empty.
  local failures=0
  expect() {
    local output status=0
    make_tree
    mkdir -p "$tree/$(dirname "$2")"
    printf '%s\n' "$3" >"$tree/$2"
    output=$( (check "$tree") 2>&1) || status=$?
    if [[ -z $1 && $status -eq 0 ]] || [[ -n $1 && $status -eq 1 && $output == *"$2:1: "*"$1"* ]]; then return; fi
    printf 'in %s the line %s\n  should be %s\n  but got: %s\n' "$2" "$3" "${1:-accepted}" "$output"
    failures=$((failures + 1))
  }

  expect '' caravan/ops/a.h '#include "caravan/ops/b.h"'
  expect '' caravan/tensor/a.h '#include "caravan/ops/b.h"'
  expect 'layer tensor may not include "caravan/base/b.h"' caravan/tensor/a.h '#include "caravan/base/b.h"'
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

  # expect_layer TEXT ROW: the list with this row at its end is refused with TEXT.
  expect_layer() {
    local output status=0 line=$((${#layers[@]} + 1)) layers=("${layers[@]}" "$2")
    make_tree
    [[ $1 != *'includes nothing'* ]] || : >"$tree/caravan/${2%%:*}/all.h"
    output=$( (check "$tree") 2>&1) || status=$?
    if [[ $status -eq 1 && $output == *"cmake/layers.txt:$line: $1"* ]]; then return; fi
    printf 'the row %s should be refused, with %s\n  but got: %s\n' "$2" "$1" "$output"
    failures=$((failures + 1))
  }
  expect_layer 'layer train uses plot, which is not on a line above it' 'train: plot'
  expect_layer 'layer train uses base, but includes nothing of it' 'train: base'
  layers+=('[back]')
  expect_layer 'layer loop of the part back uses tensor of the part front' 'loop: tensor'
  layers+=('[front]')
  expect_layer 'layer nn of the part front uses backend/interp of the part back' 'nn: backend/interp'
  if ((failures)); then exit 1; fi
  echo "every wrong arrow is reported"
}

case ${1:-} in
  --self-test) self_test ;;
  --draw) draw "$2" ;;
  ?*) (check "$1") && check_drawing "$1" ;;
  *) echo "usage: check_includes.sh ROOT | --draw ROOT | --self-test" >&2; exit 2 ;;
esac
