#!/usr/bin/env bash
# kill -9 at random moments of a run that goes on from a file and saves over it. The file is always the old one or the new one,
# whole; every tenth is trained to the end and has the bytes of a run that was never killed.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

make_stages
mkdir "$scratch/folder"
file=$scratch/folder/run.safetensors
cp "$scratch/stages/0" "$file"
duration=$(milliseconds "${train[@]}" --resume "$scratch/stages/0" --until "$steps_of_a_stage" --save "$scratch/timed")
at=0 saved=0

while more 300; do
  ((at < stages)) || { at=0 && cp "$scratch/stages/0" "$file"; }
  delay=$((RANDOM % (duration + duration / 4 + 1)))
  begin "kill -9 after $delay ms, on the way from stage $at"
  "${train[@]}" --resume "$file" --until $(((at + 1) * steps_of_a_stage)) --save "$file" >"$here/output" 2>&1 &
  run=$!
  pause "$delay"
  kill -KILL "$run" 2>/dev/null || true
  wait "$run" 2>/dev/null || true
  check_killed
  if ((tries % 10 == 0)); then
    "${train[@]}" --resume "$file" --until $((stages * steps_of_a_stage)) --save "$here/end" >"$here/output" 2>&1 || wrong "it cannot be continued"
    [[ $(stage_of "$here/end") == "$stages" ]] || wrong "continued, it ends with other bytes than a run that was not killed"
  fi
done

# What killed runs left beside the file goes when a run ends well, a minute later.
begin "a run after the kills"
find "$scratch/folder" -name '*.part' -exec touch -d '2 minutes ago' {} +
"${train[@]}" --resume "$scratch/stages/0" --until "$steps_of_a_stage" --save "$file" >"$here/output" 2>&1 || wrong "it fails"
left=$(find "$scratch/folder" -type f ! -name run.safetensors | wc -l)
((left == 0)) || wrong "$left files of killed runs are still there: $(ls -a "$scratch/folder")"
note "$saved of them came after the save"
finish
