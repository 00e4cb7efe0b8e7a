#!/usr/bin/env bash
# The disk is full, or the folder goes away, while a run trains. What it found out is printed, the exit status says that the save
# failed, and the model is in a rescue copy that the message names and that can be continued. A cache on a full disk costs time,
# never a bit of the result.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

can_mount=0
mkdir "$scratch/mounted"
small_disk() { mount -t tmpfs -o "size=$1" tmpfs "$scratch/mounted"; }
if small_disk 64k 2>/dev/null; then
  can_mount=1
  umount "$scratch/mounted"
else
  note "left out: only root may mount a small disk"
fi
make_stages
steps=200000
long=("${train[@]}" --json --steps "$steps")
"${long[@]}" --save "$scratch/undisturbed" >/dev/null 2>&1
export HOME=$scratch/home
mkdir -p "$HOME"

# rescued STATUS: the run ended with this status, its save failed, and everything is there nevertheless.
rescued() {
  local status=$1 copy
  ((status == 3)) || wrong "exit status $status: $(cat "$here/error")"
  [[ $(json_field "$here/output" steps) == "$steps" ]] || wrong "the results were not printed"
  copy=$({ grep -oE '/[^ `]+\.safetensors' "$here/error" || true; } | while read -r path; do if [[ -f $path ]]; then echo "$path"; fi; done | tail -n 1)
  if [[ -z $copy ]]; then
    wrong "no rescue copy: $(cat "$here/error")"
  elif ! cmp -s "$copy" "$scratch/undisturbed"; then
    wrong "the rescue copy $copy is not what the run would have saved"
  fi
}

folder_removed() {
  mkdir "$here/folder"
  "${long[@]}" --save "$here/folder/run.safetensors" >"$here/output" 2>"$here/error" &
  local run=$! status=0
  until_it_trains "$run"
  rm -r "$here/folder"
  wait "$run" || status=$?
  rescued "$status"
}
disk_fills_up() {  # with an older file there, which must stay as it is
  small_disk 64k
  cp "$scratch/stages/1" "$scratch/mounted/run.safetensors"
  "${long[@]}" --save "$scratch/mounted/run.safetensors" >"$here/output" 2>"$here/error" &
  local run=$! status=0
  until_it_trains "$run"
  head -c 100000 /dev/zero >"$scratch/mounted/filling" 2>/dev/null || true
  wait "$run" || status=$?
  [[ $(stage_of "$scratch/mounted/run.safetensors") == 1 ]] || wrong "the older file has changed"
  umount "$scratch/mounted"
  rescued "$status"
}
name_too_long() {  # is refused before anything is trained
  local status=0
  "$caravan" train circle --quiet --steps 2000000000 --save "$here/$(printf 'a%.0s' {1..300})" >"$here/output" 2>"$here/error" &
  local run=$!
  left_running=("$run")
  ( pause 20000 && kill -KILL "$run" ) 2>/dev/null &
  local watch=$!
  wait "$run" 2>/dev/null || status=$?
  kill "$watch" 2>/dev/null || true
  left_running=()
  ((status == 2)) || wrong "exit status $status after training: $(cat "$here/error")"
}
stopped_on_a_full_disk() {
  small_disk 64k
  "$caravan" train circle --quiet --steps 20000000 --save "$scratch/mounted/run.safetensors" >"$here/output" 2>"$here/error" &
  local run=$! status=0 copy
  left_running=("$run")
  until_it_trains "$run"
  head -c 100000 /dev/zero >"$scratch/mounted/filling" 2>/dev/null || true
  kill -INT "$run"
  wait "$run" 2>/dev/null || status=$?
  left_running=()
  umount "$scratch/mounted"
  ((status == 3 || status == 130)) || wrong "exit status $status: $(cat "$here/error")"
  copy=$(sed -nE 's/.*--resume ([^ ]+).*/\1/p' "$here/error" | head -n 1)
  if [[ -z $copy || ! -f $copy ]]; then
    wrong "no rescue copy: $(cat "$here/error")"
  else
    "$caravan" eval "$copy" >/dev/null 2>"$here/eval" || wrong "the rescue copy cannot be read: $(cat "$here/eval")"
  fi
}
full_cache() {
  local size=$((RANDOM % 60 + 4))k status=0
  what+=" of $size"
  small_disk "$size"
  CARAVAN_CACHE=$scratch/mounted "${train[@]}" --json --until "$steps_of_a_stage" --save "$here/run.safetensors" >"$here/output" 2>"$here/error" || status=$?
  umount "$scratch/mounted"
  ((status == 0)) || wrong "exit status $status: $(cat "$here/error")"
  [[ $(json_field "$here/output" device) == cpu ]] || wrong "it was interpreted: $(cat "$here/error")"
  [[ $(stage_of "$here/run.safetensors") == 1 ]] || wrong "other bytes than with a cache"
}
passing_compiler() {  # the kernels are in the cache, and there is no compiler any more
  local status=0
  cp "$scratch/stages/1" "$here/run.safetensors"
  PATH=/nowhere "${train[@]}" --resume "$here/run.safetensors" --until $((2 * steps_of_a_stage)) --save "$here/run.safetensors" \
    >"$here/output" 2>"$here/error" || status=$?
  ((status == 0)) || wrong "exit status $status: $(cat "$here/error")"
  [[ $(stage_of "$here/run.safetensors") == 2 ]] || wrong "continued without a compiler, the run has other bytes"
}
no_compiler() {  # and no kernels: a compiled run is not continued by the interpreter unless one asks for it
  local status=0
  cp "$scratch/stages/1" "$here/run.safetensors"
  CARAVAN_CACHE=$here/empty PATH=/nowhere "${train[@]}" --resume "$here/run.safetensors" --until $((2 * steps_of_a_stage)) \
    --save "$here/run.safetensors" >"$here/output" 2>"$here/error" || status=$?
  ((status == 2 || status == 3)) || wrong "exit status $status: $(cat "$here/error")"
  [[ $(stage_of "$here/run.safetensors") == 1 ]] || wrong "the file has changed"
}

ways=(folder_removed name_too_long passing_compiler no_compiler)
if ((can_mount)); then ways+=(disk_fills_up stopped_on_a_full_disk full_cache full_cache); fi
while more 32; do
  way=${ways[tries % ${#ways[@]}]}
  begin "${way//_/ }"
  "$way"
done
finish
