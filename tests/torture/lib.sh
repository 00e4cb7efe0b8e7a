# What the parts share. A part sources this, then makes tries:
#
#   while more 300; do          # 300 in ten minutes
#     begin "a kill after 12 ms"
#     ... wrong "what is not as it should be" ...
#   done
#   finish
#
# shellcheck shell=bash
set -euo pipefail
export LC_ALL=C  # messages of the system in English, numbers with a point

caravan=$TORTURE_BUILD/bin/caravan
tests=$TORTURE_BUILD/bin/tests
tries=0 failures=0 notes=() finished=0
started=$SECONDS
RANDOM=$TORTURE_SEED

# A folder of the part's own, readable for others, as those who attack are; the kernels of the part are in it.
scratch=$(mktemp -d)
chmod 755 "$scratch"
export CARAVAN_CACHE=$scratch/kernels
mkdir -m 700 "$CARAVAN_CACHE"
cd "$scratch"

what='its preparations'
left_running=()  # processes to end, whatever happens
end_part() {
  local process
  ((finished)) || echo "$TORTURE_PART broke off after $tries tries, at: $what" >&2
  for process in "${left_running[@]}"; do kill -KILL "$process" 2>/dev/null || true; done
  cd /
  if [[ -d $scratch/mounted ]] && mountpoint -q "$scratch/mounted"; then umount "$scratch/mounted"; fi
  rm -rf "$scratch"
}
trap end_part EXIT

# more COUNT: is there another try to make? COUNT is how many a run of ten minutes makes.
more() {
  ((tries < ($1 * TORTURE_PERCENT + 99) / 100)) && ((SECONDS - started < TORTURE_SECONDS))
}

# begin WHAT: a try begins, in a new folder `here`.
begin() {
  tries=$((tries + 1))
  what=$1 counted=0
  here=$scratch/try
  rm -rf "$here"
  mkdir "$here"
}

# wrong SENTENCE: the try fails. Its folder is kept, with the sentence.
wrong() {
  local place=$TORTURE_KEPT/$TORTURE_PART.$tries
  if ((!counted)); then
    counted=1
    failures=$((failures + 1))
    mkdir -p "$place"
    find "$here" -maxdepth 1 -type f -exec cp -t "$place" {} + 2>/dev/null || true
  fi
  echo "$what: $*" | tee -a "$place/why" >&2
}

# note SENTENCE: shown beside the counts, for instance why something was left out.
note() { notes+=("$1"); }

# finish: the line of the part, and its exit status.
finish() {
  local sentence
  finished=1
  printf '%-10s %7d %9d %8d' "$TORTURE_PART" "$tries" "$failures" "$((SECONDS - started))"
  for sentence in "${notes[@]}"; do printf '  %s' "$sentence"; done
  echo
  ((failures == 0))
}

# milliseconds COMMAND...: how long it takes.
milliseconds() {
  local from=${EPOCHREALTIME/./}
  "$@" >/dev/null 2>&1 || true
  echo $(((${EPOCHREALTIME/./} - from) / 1000))
}

# pause MILLISECONDS
pause() { sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"; }

# lives PROCESS: has it not ended? What has ended stays in the table of processes until its parent asks for it.
lives() {
  local state
  state=$(sed -nE 's/^State:\s+(.).*/\1/p' "/proc/$1/status" 2>/dev/null) && [[ $state && $state != [ZX] ]]
}

# until_it_trains PROCESS [SIGNAL]: waits until a training run catches signals, which it does from its first step on.
until_it_trains() {
  local mask waited
  for ((waited = 0; waited < 1000; ++waited)); do  # it was a shell, which catches signals too, until it became the command
    mask=$(awk '/^Name:/ { name = $2 } /^SigCgt:/ && name == "caravan" { print $2 }' "/proc/$1/status" 2>/dev/null || true)
    if ((16#${mask:-0} >> ($(kill -l "${2:-INT}") - 1) & 1)); then return; fi
    pause 10
  done
}

# json_field FILE KEY: from the last line of a file, as it is written there.
json_field() { tail -n 1 "$1" | sed -nE "s/.*\"$2\":\"?([^,}\"]+).*/\1/p"; }

# A training run whose checkpoints are known: `stages` of them, each written by a run of its own that nothing disturbed.
# Whatever happens to a run that goes from one to the next, its file must have the bytes of one of the two.
train=("$caravan" train moons --threads 2 --quiet)
stages=6
steps_of_a_stage=400
make_stages() {
  local k
  mkdir "$scratch/stages"
  for ((k = 0; k <= stages; ++k)); do
    "${train[@]}" --until $((k * steps_of_a_stage)) --save "$scratch/stages/$k" >"$scratch/stages/log" 2>&1 ||
      { cat "$scratch/stages/log" >&2 && exit 1; }
  done
}
# stage_of FILE: which of them a file is, or nothing.
stage_of() {
  local k
  for ((k = 0; k <= stages; ++k)); do
    if cmp -s "$1" "$scratch/stages/$k"; then echo "$k" && return; fi
  done
}

# check_killed: after a run from stage `at` to the next was killed, `file` is that of before or that of after. Counts the
# latter in `saved`.
check_killed() {
  local now
  now=$(stage_of "$file")
  cp "$file" "$here/" 2>/dev/null || true
  if [[ $now != "$at" && $now != "$((at + 1))" ]]; then
    wrong "the file is neither that of before nor that of after"
    cp "$scratch/stages/$at" "$file"
  elif [[ $now != "$at" ]]; then
    saved=$((saved + 1)) at=$now
  fi
}
