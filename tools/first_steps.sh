#!/usr/bin/env bash
# first_steps.sh [--parts N] [--seed N] [--batch N] [--ranks] [--gpu] CARAVAN [RECIPE...]: trains recipes for the first 50 steps
# of their own runs on one device and on 2, 3 and 4 workers, with the same batches: the multiple of 12 next to the recipe's own.
# A row for each, as in docs/many.md: the largest differences of the others from one device, of the loss of the last step, and
# of a tensor of the checkpoint (a weight, or what the optimiser remembers) as a part of its norm. Exit code 1 if one is above
# 1e-5.
#   --parts N  all of them add up sums in N parts, and must write the same file, byte for byte
#   --seed N   another seed than the recipe's
#   --batch N  another batch; numbers of devices that do not divide it are left out
#   --ranks    also in as many processes as workers (mpirun), which must write the files of the workers, byte for byte
#   --gpu      on the first GPU, which the workers or processes share
# The data sets must be there (CARAVAN_DATA). How many threads there are changes no bit.
set -euo pipefail
export LC_ALL=C
parts=() seed=() ranks='' gpu='' batch_of_all=''
while [[ ${1:-} == --* ]]; do
  case $1 in
    --parts) parts=(--parts "$2") && shift 2 ;;
    --seed) seed=(--seed "$2") && shift 2 ;;
    --batch) batch_of_all=$2 && shift 2 ;;
    --ranks) ranks=1 && shift ;;
    --gpu) gpu=1 && shift ;;
    *) echo "first_steps.sh: there is no option $1" >&2 && exit 2 ;;
  esac
done
(($#)) || { echo 'usage: first_steps.sh [--parts N] [--seed N] [--batch N] [--ranks] [--gpu] CARAVAN [RECIPE...]' >&2 && exit 2; }
caravan=$1
shift

# The recipe, and its batch.
table='linear 12
moons 12
circle 12
multiply-small 12
multiply-large 12
mnist-mlp 12
mnist-conv 60
mnist-autoencoder 36
names-bigram 1008
names-mlp 252
names-mlp-bn 252
names-wavenet 252
names-transformer 60
shakespeare-gpt 36'
for recipe; do
  grep -q "^$recipe " <<<"$table" || { echo "first_steps.sh: there is no recipe $recipe" >&2 && exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# workers N: the options for as many
workers() {
  if [[ $gpu ]]; then
    echo "--devices $(printf 'cuda:0%.0s\n' $(seq "$1") | paste -sd,)"
  else
    echo "--devices $1"
  fi
}
one=()  # the options of one device, and of a process
[[ ! $gpu ]] || one=(--device cuda)

# train FILE [BEFORE...] -- RECIPE BATCH [OPTION...]: the checkpoint is in $work/FILE
train() {
  local file=$work/$1 before=() json
  shift
  while [[ $1 != -- ]]; do before+=("$1") && shift; done
  local recipe=$2 batch=$3
  shift 3
  json=$("${before[@]}" "$caravan" train "$recipe" --batch "$batch" --until 50 "${parts[@]}" "${seed[@]}" "$@" --save "$file" --json 2>"$work/err" |
    tail -n 1) || { cat "$work/err" >&2 && exit 1; }
  [[ $json != *'"stand_in":true'* ]] || { echo "first_steps.sh: the data of $recipe is not here (CARAVAN_DATA)" >&2 && exit 1; }
}

cat >"$work/compare.py" <<'PYTHON'
"""compare.py ONE OTHER...: the largest differences of checkpoints from the first: of the last loss, and of a tensor."""
import array, json, math, struct, sys

def read(path):
    content = open(path, 'rb').read()
    size = struct.unpack('<Q', content[:8])[0]
    out = {}
    for name, entry in json.loads(content[8:8 + size]).items():
        if name == '__metadata__' or entry['dtype'] not in ('F32', 'F64'): continue
        first, last = entry['data_offsets']
        out[name] = array.array('f' if entry['dtype'] == 'F32' else 'd', content[8 + size + first:8 + size + last])
    return out

one, loss, tensor, where = read(sys.argv[1]), 0, 0, ''
for path in sys.argv[2:]:
    other, devices = read(path), path.rsplit('/', 1)[-1]
    if one.keys() != other.keys(): sys.exit(f'{path} has other tensors')
    for name, values in one.items():
        if name == 'run/sums': loss = max(loss, abs(values[4] - other[name][4]) / (abs(values[4]) or 1e-6))
        if name.startswith('run/'): continue
        apart = math.dist(values, other[name]) / (math.hypot(*values) or 1e-6)
        if not apart <= tensor: tensor, where = apart, f'{name} on {devices}'
print(f'{loss:.1e} {tensor:.1e} {where}')
PYTHON

failed=0
echo '| Recipe | Batch | Loss | Tensor | |'
echo '|---|---|---|---|---|'
while read -r recipe batch; do
  [[ $# -eq 0 || " $* " == *" $recipe "* ]] || continue
  batch=${batch_of_all:-$batch}
  train 1 -- "$recipe" "$batch" "${one[@]}" </dev/null
  several=() files=()
  for devices in 2 3 4; do
    ((batch % devices == 0)) || continue
    several+=("$devices") files+=("$work/$devices")
    train "$devices" -- "$recipe" "$batch" $(workers "$devices") </dev/null
  done
  read -r loss tensor where <<<"$(python3 "$work/compare.py" "$work/1" "${files[@]}")"
  note=$where
  if awk "BEGIN { exit !($loss > 1e-5 || $tensor > 1e-5) }"; then failed=1 note+=', above 1e-5'; fi
  if ((${#parts[@]})); then
    note='the same bytes'
    for devices in "${several[@]}"; do cmp -s "$work/1" "$work/$devices" || failed=1 note+=", but not on $devices"; done
  fi
  if [[ $ranks ]]; then
    same="${note:+, }the same bytes in processes"
    for devices in "${several[@]}"; do
      train ranks mpirun --oversubscribe --bind-to none -n "$devices" -- "$recipe" "$batch" "${one[@]}" </dev/null
      cmp -s "$work/ranks" "$work/$devices" || failed=1 same+=", but not in $devices"
    done
    note+=$same
  fi
  printf '| %s | %s | %s | %s | %s |\n' "$recipe" "$batch" "$loss" "$tensor" "$note"
done <<<"$table"
exit "$failed"
