#!/usr/bin/env bash
# One system call of a training run fails, as it does on a full disk (ENOSPC), a broken one (EIO), for want of memory or
# processes (ENOMEM, EAGAIN) or because a signal came (EINTR), or the run is killed right there. Then
#   with exit status 0 the file is the new one, byte for byte: the run was compiled, and nothing was lost;
#   else the file is the old one or the new one, and a sentence says what failed.
# The run finds its kernels in the cache, or an empty cache and calls the compiler, whose system calls fail likewise.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

make_stages
compiled=$CARAVAN_CACHE
if ! strace -f -qq -o /dev/null -e inject=fsync:error=EIO:when=1 true 2>/dev/null; then
  note "left out: strace may not trace here"
  finish
  exit
fi

kinds=(
  'openat ENOSPC' 'openat EIO' 'openat EMFILE' 'openat EINTR'
  'write ENOSPC' 'write EIO' 'write EINTR' 'write KILL'
  'fsync EIO' 'fsync ENOSPC' 'fsync KILL'
  'rename,renameat,renameat2 EIO' 'rename,renameat,renameat2 ENOSPC' 'rename,renameat,renameat2 KILL'
  'clone,clone3,fork,vfork EAGAIN' 'clone,clone3,fork,vfork ENOMEM'
  'mmap ENOMEM' 'read EIO' 'read EINTR'
)

# How many calls there are of one kind in a process, at most: a later one would never come. With an empty cache the compiler's
# own processes count too, each for itself.
declare -A most
count_calls() {
  local name
  for name in openat write fsync rename,renameat,renameat2 clone,clone3,fork,vfork mmap read; do
    cp "$scratch/stages/1" "$scratch/counted"
    strace -f -qq -o "$scratch/calls" -e "trace=$name" "${train[@]}" --resume "$scratch/counted" \
      --until $((2 * steps_of_a_stage)) --save "$scratch/counted" >/dev/null 2>&1 || true
    most[$name]=$(cut -d ' ' -f 1 "$scratch/calls" | sort | uniq -c | sort -rn | awk 'NR == 1 { print $1 }')
  done
}
count_calls

while more 300; do
  read -r calls error <<<"${kinds[tries % ${#kinds[@]}]}"
  at=$((RANDOM % ${most[$calls]:-1} + 1))
  cold=$((RANDOM % 4 == 0))
  if [[ $error == KILL ]]; then injected=signal=KILL; else injected=error=$error; fi
  begin "$error at number $at of $calls, $( ((cold)) && echo an empty cache || echo kernels in the cache)"
  CARAVAN_CACHE=$compiled
  if ((cold)); then
    CARAVAN_CACHE=$here/kernels
    mkdir -m 700 "$CARAVAN_CACHE"
  fi
  file=$here/run.safetensors
  cp "$scratch/stages/1" "$file"
  status=0
  {  # the shell's own word on a process that was killed is not shown
    timeout -k 5 120 strace -f -qq -o /dev/null -e "trace=$calls" -e "inject=$calls:$injected:when=$at" "${train[@]}" \
      --resume "$file" --until $((2 * steps_of_a_stage)) --save "$file" --json >"$here/output" 2>"$here/error" || status=$?
  } 2>/dev/null
  now=$(stage_of "$file")
  case $status in
    0) [[ $now == 2 ]] || wrong "exit status 0, and the file is not that of an undisturbed run: $(cat "$here/error")" ;;
    1 | 2 | 3 | 127)  # 127: the program could not be loaded
      [[ $now == 1 || $now == 2 ]] || wrong "the file is neither the old one nor the new one"
      [[ -s $here/error ]] || wrong "exit status $status without a word"
      ((status != 127)) || grep -q 'loading shared libraries' "$here/error" || wrong "exit status 127: $(cat "$here/error")"
      ;;
    124) wrong "it hangs" ;;
    137) [[ $error == KILL && ($now == 1 || $now == 2) ]] || wrong "killed, and the file is neither the old one nor the new one" ;;
    *) wrong "exit status $status: $(cat "$here/error")" ;;
  esac
done
finish
