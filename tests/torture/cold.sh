#!/usr/bin/env bash
# Eight processes at once, all with the same process number (each is the first of its own namespace, as in containers), begin
# with one empty cache and save to one file. Each compiles or finds the kernels, none is interpreted, and the file is whole.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

at_once=8
if unshare -pf --mount-proc true 2>/dev/null; then
  apart=(unshare -pf --mount-proc)
elif unshare -rpf --mount-proc true 2>/dev/null; then
  apart=(unshare -rpf --mount-proc)
else
  note "left out: this user may not make namespaces of process numbers"
  finish
  exit
fi
make_stages

while more 64; do
  rm -rf "$scratch/shared"
  mkdir -m 700 "$scratch/shared"
  running=()
  for ((k = 0; k < at_once; ++k)); do
    CARAVAN_CACHE=$scratch/shared "${apart[@]}" "${train[@]}" --json --until "$steps_of_a_stage" --save "$scratch/shared/run.safetensors" \
      >"$scratch/output.$k" 2>"$scratch/error.$k" &
    running+=($!)
  done
  for ((k = 0; k < at_once; ++k)); do
    status=0
    wait "${running[k]}" || status=$?
    begin "number $k of $at_once at once"
    cp "$scratch/output.$k" "$here/output"
    cp "$scratch/error.$k" "$here/error"
    ((status == 0)) || wrong "exit status $status: $(cat "$here/error")"
    [[ $(json_field "$here/output" device) == cpu ]] || wrong "it was not compiled: $(cat "$here/error")"
  done
  [[ $(stage_of "$scratch/shared/run.safetensors") == 1 ]] || wrong "the file that all of them saved is not that of one alone"
done
finish
