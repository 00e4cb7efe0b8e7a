#!/usr/bin/env bash
# generated_c.sh BUILD OUT: writes into OUT all C that a build of Caravan generates for its recipes, their exported models, its
# examples and the training runs of tests/fixtures, and the CUDA C++ of the recipes, one file a program. Two builds that generate the
# same text give equal folders: the proof that a refactoring changed nothing that runs. `./dev same-text` compares two revisions with it.
set -euo pipefail
build=$1 out=$2
mkdir -p "$out"
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
if [[ -z ${CARAVAN_DATA:-} && -d ../shared/data/mnist ]]; then export CARAVAN_DATA=../shared/data; fi

# recipe NAME STAGE ENDING: the text of a recipe's training step; nothing is compiled.
recipe() {
  local file="$out/recipe $1.$3"
  CARAVAN_CACHE=$cache "$build/bin/caravan" inspect "$1" --stage "$2" >"$file" 2>"$cache/error" && return
  rm -f "$file"
  echo "left out: inspect $1 --stage $2 ($(tail -n 1 "$cache/error"))" >&2
}

# kept NAME COMMAND...: runs a program with an empty kernel cache, which keeps the text of all that it compiled. Names in the
# cache depend on more than the text, so the texts are sorted by what they contain.
kept() {
  local name=$1 texts
  shift
  rm -rf "$cache/kernels"
  mkdir -m 700 "$cache/kernels"
  if ! CARAVAN_CACHE=$cache/kernels "$@" >"$cache/output" 2>&1; then
    echo "left out: $name ($(tail -n 1 "$cache/output"))" >&2
    return
  fi
  texts=$(find "$cache/kernels" -name '*.c' -exec sha256sum {} + | sort | uniq -w 64 | cut -c 67-)
  if [[ -n $texts ]]; then xargs -d '\n' cat <<<"$texts" >"$out/$name.c"; fi
}

# exported NAME: the C file of a recipe's model after one step.
exported() {
  local model=$cache/model.safetensors
  if CARAVAN_CACHE=$cache "$build/bin/caravan" train "$1" --steps 1 --quiet --save "$model" >/dev/null 2>"$cache/error" &&
    "$build/bin/caravan" export "$model" --c "$cache/model.c" --weights "$cache/model.weights" >/dev/null 2>"$cache/error"; then
    mv "$cache/model.c" "$out/export $1.c"
  else
    echo "left out: export $1 ($(tail -n 1 "$cache/error"))" >&2
  fi
}

# The recipes that the command has: the first words of a paragraph of its help.
recipes=$("$build/bin/caravan" help train | sed -nE '/^Recipes$/,/^$/s/^  ([a-z][a-z0-9-]*) .*/\1/p')
[[ -n $recipes ]] || { echo "generated_c.sh: \`caravan help train\` lists no recipe" >&2 && exit 1; }
for name in $recipes; do
  recipe "$name" c c
  recipe "$name" cuda cu
done
for name in $recipes; do  # without the language models: after a step they are evaluated for minutes
  if [[ ! $name =~ ^(names|shakespeare)- ]]; then exported "$name"; fi
done
for optimizer in momentum nesterov adam adamw rmsprop lion; do
  kept "recipe moons, $optimizer" "$build/bin/caravan" train moons --optimizer "$optimizer" --steps 1 --quiet
done
for option in --paper "--batch 128"; do
  # shellcheck disable=SC2086  # an option and its value are two words
  kept "recipe mnist-mlp, $option" "$build/bin/caravan" train mnist-mlp $option --steps 1 --quiet
done
for example in "$build"/bin/examples/*; do  # where their data are, and where they write their files
  kept "example $(basename "$example")" env -C "$build/examples" "$(realpath "$example")"
done
for fixture in tests/fixtures/*.safetensors; do
  kept "fixture $(basename "$fixture" .safetensors)" "$build/bin/caravan" parity "$fixture"
done
