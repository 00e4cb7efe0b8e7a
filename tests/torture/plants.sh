#!/usr/bin/env bash
# Somebody else puts kernels where Caravan looks for its own: entries under the right names, with the right checksums, that do
# something more when they are loaded. They must not be loaded, and the run must compile its own kernels elsewhere.
#
# The entries are made by Caravan itself, started by the attacker with a compiler that adds a function to every library. That
# function writes the number of the user whose process has loaded it. The attacker is another user where the part runs as root.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

attacker=65534
attack=()
if ((EUID == 0)); then
  attack=(setpriv "--reuid=$attacker" "--regid=$attacker" --clear-groups)
else
  attacker=$EUID
  note "as one user alone: entries of another user are left out (run it as root)"
fi
victim=("$scratch/caravan" train linear --quiet --json)
usual=(env -u CARAVAN_CACHE -u XDG_CACHE_HOME HOME="$scratch/home")

# What all of it happens in: the command and the evil compiler, for both users to run, and the file that tells who loaded what.
cp "$caravan" "$scratch/caravan"
mkdir "$scratch/evil" "$scratch/home"
loaded=$scratch/loaded
: >"$loaded"
chmod 666 "$loaded"
real=$(command -v cc)
cat >"$scratch/evil/more.c" <<TEXT
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void planted(void) {
  FILE* file = fopen("$loaded", "a");
  if (file) fprintf(file, "%d\n", (int)geteuid()), fclose(file);
}
TEXT
cat >"$scratch/evil/cc" <<TEXT
#!/bin/sh
for word; do
  if [ "\$word" = -shared ]; then exec "$real" "\$@" "$scratch/evil/more.c"; fi
done
exec "$real" "\$@"
TEXT
chmod 755 "$scratch/evil/cc"

# plant FOLDER: lets the attacker fill it. It must work for the attacker, or the try would mean nothing.
plant() {
  mkdir -p "$1"
  if ((EUID == 0)); then chown "$attacker" "$1"; fi
  chmod 700 "$1"
  (cd / && env -u XDG_CACHE_HOME HOME=/ CARAVAN_CACHE="$1" PATH="$scratch/evil:$PATH" "${attack[@]}" "$scratch/caravan" train linear --quiet) \
    >"$here/planting" 2>&1 || wrong "the attacker's own run fails: $(cat "$here/planting")"
  : >"$loaded"
  (cd / && env -u XDG_CACHE_HOME HOME=/ CARAVAN_CACHE="$1" PATH="$scratch/evil:$PATH" "${attack[@]}" "$scratch/caravan" train linear --quiet) \
    >"$here/planting" 2>&1 || true
  grep -qx "$attacker" "$loaded" || wrong "the attacker's entries are not loaded by the attacker either, so the try shows nothing"
  : >"$loaded"
}

# attacked FOLDER_OF_THE_RUN CHANGE...: the victim's run, in this folder and with these changes of the environment, in the words
# of env(1).
attacked() {
  local folder=$1 status=0
  shift
  (cd "$folder" && "${usual[@]}" env "$@" "${victim[@]}") >"$here/output" 2>"$here/error" || status=$?
  ((status == 0)) || wrong "exit status $status: $(cat "$here/error")"
  [[ $(json_field "$here/output" device) == cpu ]] || wrong "the run was interpreted: $(cat "$here/error")"
  if [[ -s $loaded ]]; then wrong "planted code ran as user $(sort -u "$loaded" | tr '\n' ' ')"; fi
}

# --- the ways in ---
folder_of_another() {
  plant "$here/cache"
  chmod 755 "$here/cache"
  attacked "$here" CARAVAN_CACHE="$here/cache"
}
folder_for_everybody() {  # as /tmp is
  plant "$here/cache"
  chown root "$here/cache"
  chmod 1777 "$here/cache"
  attacked "$here" CARAVAN_CACHE="$here/cache"
}
folder_of_a_group() {
  plant "$here/cache"
  if ((EUID == 0)); then chown -R root "$here/cache"; fi
  chmod 775 "$here/cache"
  attacked "$here" CARAVAN_CACHE="$here/cache"
}
entries_of_another() {  # moved into a folder of the victim's
  plant "$here/cache"
  chown root "$here/cache"
  chmod 755 "$here/cache"
  attacked "$here" CARAVAN_CACHE="$here/cache"
}
entries_for_everybody() {
  plant "$here/cache"
  if ((EUID == 0)); then chown -R root "$here/cache"; fi
  find "$here/cache" -type f -exec chmod 666 {} +
  attacked "$here" CARAVAN_CACHE="$here/cache"
}
folder_above() {  # whoever owns the folder above puts another in its place
  mkdir "$here/above"
  plant "$here/above/cache"
  chown -R root "$here/above/cache"
  chown "$attacker" "$here/above"
  attacked "$here" CARAVAN_CACHE="$here/above/cache"
}
link_to_another() {
  plant "$here/cache"
  chmod 755 "$here/cache"
  ln -s "$here/cache" "$here/link"
  attacked "$here" CARAVAN_CACHE="$here/link"
}
settings_of_the_current_folder() {  # as in a repository that was cloned: they are refused, with a sentence
  plant "$here/.k"
  if ((EUID == 0)); then chown -R root "$here/.k"; fi
  cp "$scratch/evil/cc" "$here/cc"
  local line status
  for line in 'cache = ".k"' 'compiler = "./cc"' 'cc = "./cc"'; do
    echo "$line" >"$here/caravan.toml"
    status=0
    (cd "$here" && "${usual[@]}" "${victim[@]}") >"$here/output" 2>"$here/error" || status=$?
    ((status == 2)) || wrong "exit status $status with \`$line\`: $(cat "$here/error")"
    if [[ -s $loaded ]]; then wrong "planted code ran, with \`$line\`"; fi
  done
}
no_home() {  # as in cron and in services
  plant "$here/.cache/caravan"
  if ((EUID == 0)); then chown -R root "$here/.cache"; fi
  attacked "$here" --unset=HOME
}
relative_home() {
  plant "$here/.cache/caravan"
  if ((EUID == 0)); then chown -R root "$here/.cache"; fi
  attacked "$here" HOME=.
}
link_as_scratch_file() {  # what a save writes first is a new file, whatever stands there
  local victim_file=$here/victim k
  echo untouched >"$victim_file"
  for ((k = 0; k < 40; ++k)); do ln -s "$victim_file" "$here/m.st.$(($$ + k)).0.part"; done
  (cd "$here" && "$scratch/caravan" train linear --quiet --save m.st) >"$here/output" 2>&1 || wrong "it fails: $(cat "$here/output")"
  [[ $(<"$victim_file") == untouched ]] || wrong "a save wrote through a planted link"
  [[ -f $here/m.st && ! -L $here/m.st ]] || wrong "what was saved is a link"
}

ways=(folder_of_a_group entries_for_everybody settings_of_the_current_folder no_home relative_home link_as_scratch_file)
if ((EUID == 0)); then ways+=(folder_of_another folder_for_everybody entries_of_another folder_above link_to_another); fi
while more 24; do
  way=${ways[tries % ${#ways[@]}]}
  begin "${way//_/ }"
  rm -rf "${scratch:?}/home"
  mkdir "$scratch/home"
  "$way"
done
finish
