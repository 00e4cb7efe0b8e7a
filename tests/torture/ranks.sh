#!/usr/bin/env bash
# kill -9 of one of the processes that mpirun has started, at random moments. All of them end within ten seconds, and the file is
# the old one or the new one, whole; every tenth is trained to the end, on another number of processes, by one device.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if ! command -v mpirun >/dev/null; then
  note "left out: there is no mpirun (apt-get install openmpi-bin)"
  finish
  exit
fi
one=("${train[@]}")
mpi=(mpirun --allow-run-as-root --oversubscribe -n 2)
train=("${mpi[@]}" "$caravan" train moons --threads 1 --quiet)
make_stages
mkdir "$scratch/folder"
file=$scratch/folder/run.safetensors
cp "$scratch/stages/0" "$file"
duration=$(milliseconds "${train[@]}" --resume "$scratch/stages/0" --until "$steps_of_a_stage" --save "$scratch/timed")
at=0 saved=0 longest=0

while more 50; do
  ((at < stages)) || { at=0 && cp "$scratch/stages/0" "$file"; }
  delay=$((RANDOM % (duration + 1)))
  begin "kill -9 of a process after $delay ms, on the way from stage $at"
  "${train[@]}" --resume "$file" --until $(((at + 1) * steps_of_a_stage)) --save "$file" >"$here/output" 2>&1 &
  run=$!
  left_running=("$run")
  pause "$delay"
  mapfile -t ranks < <(pgrep -P "$run" -x caravan || true)
  ((${#ranks[@]})) && kill -KILL "${ranks[RANDOM % ${#ranks[@]}]}" 2>/dev/null || true
  from=${EPOCHREALTIME/./}
  wait "$run" 2>/dev/null || true
  took=$(((${EPOCHREALTIME/./} - from) / 1000))
  ((took > longest)) && longest=$took
  ((took < 10000)) || wrong "the others ended only after $took ms"
  check_killed
  if ((tries % 10 == 0)); then
    "${one[@]}" --resume "$file" --until $((stages * steps_of_a_stage)) --save "$here/end" >"$here/output" 2>&1 || wrong "one device cannot continue it"
  fi
done
note "$saved of them came after the save; the others ended after $longest ms at most"
finish
