#!/usr/bin/env bash
# SIGINT (Ctrl-C), SIGTERM (docker stop, batch systems) and SIGHUP (a closed terminal) at random moments of a long run. The file
# it saved has the bytes of a run that was told to stop at the same step.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

long=("$caravan" train circle --threads 2 --quiet --steps 20000000)
"${long[@]}" --until 1 --save "$scratch/first" >/dev/null 2>&1  # its kernels are in the cache now
signals=(INT TERM HUP)

while more 60; do
  signal=${signals[tries % 3]}
  delay=$((RANDOM % 700))
  begin "SIG$signal $delay ms after the run catches it"
  file=$here/run.safetensors
  # None ignored, as the shell has INT for what runs in the background, and nohup has HUP.
  env --default-signal=INT,TERM,HUP "${long[@]}" --save "$file" >"$here/output" 2>"$here/error" &
  run=$!
  left_running=("$run")
  until_it_trains "$run" "$signal"
  pause "$delay"
  kill "-$signal" "$run"
  status=0
  wait "$run" 2>/dev/null || status=$?
  left_running=()
  step=$(sed -nE 's/.*stopped after step ([0-9]+) of.*/\1/p' "$here/error")
  ((status == 128 + $(kill -l "$signal"))) || wrong "exit status $status: $(cat "$here/error")"
  if [[ -z $step || ! -f $file ]]; then
    wrong "it does not say at which step it stopped, or there is no file"
    continue
  fi
  "${long[@]}" --until "$step" --save "$here/reference" >/dev/null 2>&1 || wrong "a run until step $step fails"
  cmp -s "$file" "$here/reference" || wrong "the file is not that of a run until step $step"
done
finish
