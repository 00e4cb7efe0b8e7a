#!/usr/bin/env bash
# final_metrics.sh [--parts N] [--ranks] [--steps N] CARAVAN THREADS [RECIPE...]: trains recipes to their end on one device and on
# 2, 3 and 4 workers, with the same batches (the multiple of 12 next to the recipe's own), as many runs at a time as THREADS
# allow, and compares what they report. A line for each: the number of one device, and the largest difference of the others
# from it. Exit code 1 if one is larger than 0.01: an accuracy differs by one in a hundred, a loss per letter by less than it
# does from seed to seed.
#   --parts N  all of them add up sums in N parts, and must write the same file, byte for byte
#   --ranks    processes (mpirun) instead of workers
#   --steps N  another number of steps than the recipe's
set -euo pipefail
export LC_ALL=C
parts='' ranks='' all=()
while [[ ${1:-} == --* ]]; do
  case $1 in
    --parts) parts=$2 all+=(--parts "$2") && shift 2 ;;
    --steps) all+=(--steps "$2") && shift 2 ;;
    --ranks) ranks=1 && shift ;;
    *) echo "final_metrics.sh: there is no option $1" >&2 && exit 2 ;;
  esac
done
[[ ${2:-} =~ ^[0-9]+$ ]] || { echo 'usage: final_metrics.sh [--parts N] [--steps N] [--ranks] CARAVAN THREADS [RECIPE...]' >&2 && exit 2; }
caravan=$1 threads=$2
shift 2

# The recipe, the number that it reports, threads of its runs, and its batch.
table='shakespeare-gpt validation_nll 4 36
names-transformer dev_nll 2 60
mnist-conv test_accuracy 1 60
mnist-autoencoder reconstruction_error 1 36
names-wavenet dev_nll 1 252
mnist-mlp test_accuracy 1 36
names-mlp-bn dev_nll 1 252
names-mlp dev_nll 1 252
names-bigram dev_nll 1 1008
circle test_accuracy 1 12
multiply-large mean_absolute_error 1 12
multiply-small mean_absolute_error 1 12
moons train_accuracy 1 12
linear w 1 12'
for recipe; do
  grep -q "^$recipe " <<<"$table" || { echo "final_metrics.sh: there is no recipe $recipe" >&2 && exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# train NAME DEVICES THREADS BATCH: the last line of the run is in $work/NAME.DEVICES
train() {
  local name=$1 devices=$2 own=$3 batch=$4 run=("$caravan")
  if [[ $ranks ]]; then
    ((devices == 1)) || run=(mpirun --oversubscribe --bind-to none -n "$devices" "$caravan") own=$(((own + devices - 1) / devices))
    run+=(train "$name")
  else
    run+=(train "$name" --devices "$devices")
  fi
  "${run[@]}" --batch "$batch" "${all[@]}" --threads "$own" --json --save "$work/$name.$devices.safetensors" \
    2>"$work/$name.$devices.err" </dev/null | tail -n 1 >"$work/$name.$devices" || true
}
used=0
declare -A holds=()  # threads by process
while read -r name metric own batch; do
  [[ $# -eq 0 || " $* " == *" $name "* ]] || continue
  for devices in 1 2 3 4; do
    need=$((own > devices ? own : devices))
    ((need <= threads)) || need=$threads
    while ((used > 0 && used + need > threads)); do
      wait -n -p ended || true
      used=$((used - holds[$ended]))
    done
    train "$name" "$devices" "$need" "$batch" &
    holds[$!]=$need used=$((used + need))
  done
done <<<"$table"
wait

differ=0
printf '%-18s %-22s %12s %12s %12s %12s %10s\n' recipe number 'one device' two three four difference
while read -r name metric _; do
  [[ $# -eq 0 || " $* " == *" $name "* ]] || continue
  values=()
  for devices in 1 2 3 4; do
    values+=("$(grep -o "\"$metric\":[-0-9.e]*" "$work/$name.$devices" | head -n 1 | cut -d: -f2 || true)")
    [[ -n ${values[-1]} ]] || { values[-1]=nan && tail -n 1 "$work/$name.$devices.err"; }
  done
  line=$(awk -v values="${values[*]}" 'BEGIN {
    n = split(values, v, " ")
    for (k = 1; k <= n; ++k) {
      d = v[k] == "nan" || v[1] == "nan" ? 9 : v[k] > v[1] ? v[k] - v[1] : v[1] - v[k]
      if (d > m) m = d
      printf "%12.7f ", v[k]
    }
    printf "%10.7f %s", m, m <= 0.01 ? "" : "differs" }')
  if [[ $parts ]]; then
    for devices in 2 3 4; do
      cmp -s "$work/$name."{1,"$devices"}.safetensors || line+=" other bytes on $devices, which differs"
    done
    [[ $line == *differs* ]] || line+='the same bytes'
  fi
  printf '%-18s %-22s %s\n' "$name" "$metric" "$line"
  [[ $line != *differs* ]] || differ=1
done <<<"$table"
exit "$differ"
