#!/usr/bin/env bash
# final_metrics.sh CARAVAN THREADS [RECIPE...]: trains recipes to their end on one device, on two and on four, with the same
# batches, as many at a time as THREADS allow, and compares what they report. A line for each: the number of one device, and
# the largest difference of the others from it. Exit code 1 if one is larger than 0.01: an accuracy differs by one in a hundred,
# a loss per letter by less than it does from seed to seed.
set -euo pipefail
export LC_ALL=C
caravan=$1 threads=$2
shift 2

# The recipe, the number that it reports, threads of its runs, and its options: a batch that four devices can share.
table='shakespeare-gpt validation_nll 4
names-transformer dev_nll 2
mnist-conv test_accuracy 1
mnist-autoencoder reconstruction_error 1
names-wavenet dev_nll 1
mnist-mlp test_accuracy 1 --batch 32
names-mlp-bn dev_nll 1
names-mlp dev_nll 1
names-bigram dev_nll 1
circle test_accuracy 1 --batch 4
multiply-large mean_absolute_error 1 --batch 4
multiply-small mean_absolute_error 1 --batch 4
moons train_accuracy 1 --batch 20
linear w 1'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# train NAME DEVICES THREADS OPTION...: the last line of the run is in $work/NAME.DEVICES
train() {
  local name=$1 devices=$2 own=$3
  shift 3
  "$caravan" train "$name" "$@" --devices "$devices" --threads "$own" --json 2>"$work/$name.$devices.err" | tail -n 1 >"$work/$name.$devices" || true
}
used=0
declare -A holds=()  # threads by process
while read -r name metric own options; do
  [[ $# -eq 0 || " $* " == *" $name "* ]] || continue
  for devices in 1 2 4; do
    need=$((own > devices ? own : devices))
    ((need <= threads)) || need=$threads
    while ((used > 0 && used + need > threads)); do
      wait -n -p ended || true
      used=$((used - holds[$ended]))
    done
    # shellcheck disable=SC2086  # options are words
    train "$name" "$devices" "$need" $options &
    holds[$!]=$need used=$((used + need))
  done
done <<<"$table"
wait

differ=0
printf '%-18s %-22s %12s %12s %12s %10s\n' recipe number 'one device' two four difference
while read -r name metric _; do
  [[ $# -eq 0 || " $* " == *" $name "* ]] || continue
  values=()
  for devices in 1 2 4; do
    values+=("$(grep -o "\"$metric\":[-0-9.e]*" "$work/$name.$devices" | head -n 1 | cut -d: -f2 || true)")
    [[ -n ${values[-1]} ]] || { values[-1]=nan && tail -n 1 "$work/$name.$devices.err"; }
  done
  line=$(awk -v a="${values[0]}" -v b="${values[1]}" -v c="${values[2]}" 'function d(x) { return x == "nan" || a == "nan" ? 9 : x > a ? x - a : a - x }
    BEGIN { m = d(b) > d(c) ? d(b) : d(c); printf "%12.6f %12.6f %12.6f %10.6f %s", a, b, c, m, m <= 0.01 ? "" : "differs" }')
  printf '%-18s %-22s %s\n' "$name" "$metric" "$line"
  [[ $line != *differs ]] || differ=1
done <<<"$table"
exit "$differ"
