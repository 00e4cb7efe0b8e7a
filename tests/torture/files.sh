#!/usr/bin/env bash
# Damaged files and texts: every reader of tests/fuzz in its own process, tens of thousands of inputs each, and damaged
# checkpoints for the command. Each is read or refused with a sentence; a checkpoint that is not what was written is refused.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

inputs=$((200 * TORTURE_PERCENT))  # for each reader: 20,000 in ten minutes
for program in "$tests"/mutate_*; do
  ((SECONDS - started < TORTURE_SECONDS)) || { note "the time was over before ${program##*mutate_}" && break; }
  begin "${program##*mutate_}"
  tries=$((tries - 1 + inputs))
  (ulimit -v 8000000 && "$program" "$inputs" "$((RANDOM + 1))") >"$here/output" 2>&1 ||
    wrong "exit status $?: $(tail -n 3 "$here/output"); the last input is not known, ./dev fuzz ${program##*mutate_} finds one"
done
readers=$tries

# damage FROM TO: cut, a bit, a byte, a block of zeros, bytes put in, bytes taken out, two blocks exchanged.
damage() {
  local size at length byte
  size=$(stat -c %s "$1")
  at=$(((RANDOM * 32768 + RANDOM) % size)) length=$((RANDOM % 64 + 1))
  cp "$1" "$2"
  case $((RANDOM % 6)) in
    0) truncate -s "$at" "$2" ;;
    1)
      byte=$(od -An -tu1 -j "$at" -N 1 "$1")
      printf "\\x$(printf %02x $((byte ^ 1 << RANDOM % 8)))" | dd of="$2" bs=1 seek="$at" conv=notrunc status=none
      ;;
    2) head -c 1 /dev/urandom | dd of="$2" bs=1 seek="$at" conv=notrunc status=none ;;
    3) head -c "$length" /dev/zero | dd of="$2" bs=1 seek="$at" conv=notrunc status=none ;;
    4) { head -c "$at" "$1" && head -c "$length" /dev/urandom && tail -c "+$((at + 1))" "$1"; } >"$2" ;;
    5) { head -c "$at" "$1" && tail -c "+$((at + 1 + length))" "$1"; } >"$2" ;;
  esac
}

whole=$scratch/whole.safetensors
"${train[@]}" --until 400 --save "$whole" >/dev/null 2>&1
"$caravan" eval "$whole" >"$scratch/evaluated" 2>/dev/null
checkpoints=0
while ((checkpoints < 3 * TORTURE_PERCENT && SECONDS - started < TORTURE_SECONDS)); do
  checkpoints=$((checkpoints + 1))
  begin "damaged checkpoint $checkpoints"
  damage "$whole" "$here/damaged.safetensors"
  cmp -s "$whole" "$here/damaged.safetensors" && continue
  status=0
  timeout 20 "$caravan" eval "$here/damaged.safetensors" >"$here/output" 2>"$here/error" || status=$?
  if ((status == 0)); then
    # The space that fills up the header may hold any other blank.
    diff -q <(sed 's/damaged/whole/' "$here/output") "$scratch/evaluated" >/dev/null || wrong "it was evaluated, with another result"
  elif ((status != 2)); then
    wrong "exit status $status: $(cat "$here/error")"
  fi
  [[ $(wc -l <"$here/error") -le 1 ]] || wrong "more than one line: $(cat "$here/error")"
done
note "$readers inputs of readers, $checkpoints checkpoints"
finish
