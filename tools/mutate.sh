#!/usr/bin/env bash
# mutate.sh --check: does every fault still fit the sources? Builds nothing.
# mutate.sh [NAME...]: puts the faults of tests/faults.txt into a copy of the sources, one at a time, and runs the tests that
# should notice. Prints for each fault which tests caught it and how many seconds that took. The exit status is 1 where a test
# let a fault through, where the text that a fault replaces is no longer in the sources, and where it does not build.
#
# `./dev mutate` runs it. The copy, the logs and the times of the last run are in build/mutate.
set -euo pipefail

list=tests/faults.txt
folder=$PWD/build/mutate
tree=$folder/tree
logs=$folder/logs
programs=$tree/build/ci/bin/tests
kernels=$folder/kernels       # the kernel cache of the sound sources; every fault begins with a copy of it
seconds_to_hang=300           # of a test; a fault that makes it wait for ever has been noticed as well
seconds_guessed=60            # for a fault that has not been measured on this machine

fail() {
  echo "mutate: $*" >&2
  exit 1
}

# --- the list ---
names=()
declare -A sentence file was becomes tests seconds

# read_list: fills the tables above. The form of a fault is told at the top of the list.
read_list() {
  local line name='' number=0 newline=$'\n'
  while IFS= read -r line || [[ -n $line ]]; do
    number=$((number + 1))
    case $line in
      '#'* | '') ;;
      '- '*) was[$name]+=${was[$name]:+$newline}${line#- } ;;
      '+ '* | '+') becomes[$name]+=${becomes[$name]:+$newline}${line:2} ;;
      'in '*) file[$name]=${line#in } ;;
      'by '*) tests[$name]+=${tests[$name]:+$newline}${line#by } ;;
      *': '*)
        name=${line%%: *}
        [[ -z ${sentence[$name]:-} ]] || fail "$list:$number: there are two faults called $name"
        names+=("$name")
        sentence[$name]=${line#*: } was[$name]='' becomes[$name]='' tests[$name]='' file[$name]=''
        ;;
      *) fail "$list:$number: \`$line\` is no line of a fault" ;;
    esac
  done <"$list"
  for name in "${names[@]}"; do
    [[ -n ${file[$name]} && -n ${was[$name]} && -n ${tests[$name]} ]] ||
      fail "$list: $name needs a file, the text that is replaced, and a test"
  done
}

# How long each fault took the last time, on this machine.
read_seconds() {
  local name value
  [[ -f $folder/seconds ]] || return 0
  while read -r name value; do seconds[$name]=$value; done <"$folder/seconds"
}
write_seconds() {
  local name
  for name in "${!seconds[@]}"; do echo "$name ${seconds[$name]}"; done | sort >"$folder/seconds"
}

# --- the copy of the sources ---
# What differs is copied and is new then, so that it is built again, and nothing else is: also where a run was killed while a
# fault was in it.
copy_sources() {
  local path
  mkdir -p "$tree" "$logs"
  while IFS= read -r -d '' path; do
    cmp -s "$path" "$tree/$path" || { mkdir -p "$tree/${path%/*}" && cp --no-dereference --preserve=mode "$path" "$tree/$path"; }
  done < <(sources_of)
  while IFS= read -r -d '' path; do
    [[ -e $path || -L $path ]] || rm "$tree/$path"
  done < <(cd "$tree" && sources_of)
}
sources_of() { find . \( -path ./build -o -path ./.git \) -prune -o ! -type d -print0; }

# with_fault NAME PATH: prints the file with the fault in it. 1 where the text is not there, or there more than once.
with_fault() {
  local content old=${was[$1]} after
  [[ -f $2 ]] || return 1
  IFS= read -r -d '' content <"$2" || true
  [[ $content == *"$old"* ]] || return 1
  after=${content#*"$old"}
  [[ $after != *"$old"* ]] || return 1
  printf '%s' "${content%%"$old"*}${becomes[$1]}$after"
}
# put_in NAME: into the copy.
put_in() {
  local path=$tree/${file[$1]}
  with_fault "$1" "$path" >"$folder/faulty" || return 1
  cp "$path" "$folder/sound"
  cp "$folder/faulty" "$path"
}
take_out() {
  cp "$folder/sound" "$tree/${file[$1]}"  # with the time of now: it has to be built again
}

# --- building and running ---
# build LOG PROGRAM...
build() {
  local log=$1
  shift
  cmake --build "$tree/build/ci" -j "$(nproc)" --target "$@" >"$log" 2>&1
}

# programs_of NAME...: the test programs of faults, each once.
programs_of() {
  local name
  for name in "$@"; do echo "${tests[$name]}"; done | cut -d ' ' -f 1 | sort -u
}

# run_test LOG CACHE PROGRAM [FILTER]
run_test() {
  local log=$1 cache=$2 program=$3 filter=${4:-}
  (cd "$tree" && CARAVAN_CACHE=$cache CARAVAN_TEST_DEVICE=${CARAVAN_TEST_DEVICE:-cpu} \
    timeout -k 5 "$seconds_to_hang" "$programs/$program" ${filter:+"--gtest_filter=$filter"}) >"$log" 2>&1
}

# caught_by LOG STATUS: in words.
caught_by() {
  local log=$1 status=$2 failed
  if ((status == 124 || status == 137)); then
    echo "it hangs"
  elif ((status > 128)); then
    echo "signal $((status - 128))"
  else
    failed=$(sed -n 's/^\[  FAILED  \] \([^ ,]*\.[^ ,]*\).*/\1/p' "$log" | sort -u)
    case $(grep -c . <<<"$failed" || true) in
      0) echo "status $status" ;;
      1) echo "$failed" ;;
      *) echo "$(head -n 1 <<<"$failed") and $(($(grep -c . <<<"$failed") - 1)) more" ;;
    esac
  fi
}

# The tests must pass on sound sources: else what they say of a fault means nothing.
check_sound() {
  local name program filter
  # shellcheck disable=SC2046  # names of programs have no blanks
  build "$logs/sound.build" $(programs_of "$@") || fail "the sources do not build: $logs/sound.build"
  rm -rf "$kernels"
  mkdir -m 700 "$kernels"
  while read -r program filter; do
    run_test "$logs/sound.$program" "$kernels" "$program" "$filter" ||
      fail "$program $filter fails without any fault: $logs/sound.$program"
    ! grep -q '^\[==========\] 0 tests' "$logs/sound.$program" || fail "$program has no test $filter"
  done < <(for name in "$@"; do echo "${tests[$name]}"; done | sort -u)
}

# try NAME: prints its line; 1 where a test let it through.
try() {
  local name=$1 program filter status let_through=0 from=$SECONDS cache=$folder/kernels.of_a_fault said=''
  if ! put_in "$name"; then
    printf '%-26s STALE: the text it replaces is not in %s exactly once\n' "$name" "${file[$name]}"
    return 1
  fi
  # shellcheck disable=SC2046
  if ! build "$logs/$name.build" $(programs_of "$name"); then
    take_out "$name"
    printf '%-26s STALE: it does not build (%s)\n' "$name" "$logs/$name.build"
    return 1
  fi
  while read -r program filter; do
    rm -rf "$cache"
    cp -a "$kernels" "$cache"
    status=0
    { run_test "$logs/$name.$program" "$cache" "$program" "$filter" || status=$?; } 2>/dev/null  # the shell's own word on a crash
    if ((status == 0)); then
      let_through=1
      said+="${said:+; }$program LETS IT THROUGH"
    else
      said+="${said:+; }$program: $(caught_by "$logs/$name.$program" "$status")"
    fi
  done <<<"${tests[$name]}"
  take_out "$name"
  rm -rf "$cache"
  seconds[$name]=$((SECONDS - from))
  write_seconds
  printf '%-26s %5d s  %s\n' "$name" "${seconds[$name]}" "$said"
  return $let_through
}

# check_list: names the faults whose text is gone, and those whose tests are; 1 where there are any.
check_list() {
  local name program stale=0
  for name in "${names[@]}"; do
    with_fault "$name" "${file[$name]}" >/dev/null || { echo "$name: the text it replaces is not in ${file[$name]} exactly once"; stale=1; }
    while read -r program; do
      [[ -f tests/$program.cpp || -d tests/${program%_test} || -f tests/fuzz/${program#mutate_}.cpp ]] ||
        { echo "$name: there is no test program $program"; stale=1; }
    done < <(programs_of "$name")
  done
  return $stale
}

read_list
if [[ ${1:-} == --check ]]; then
  check_list
  exit
fi
chosen=("$@")
((${#chosen[@]})) || chosen=("${names[@]}")
for name in "${chosen[@]}"; do
  [[ -n ${sentence[$name]:-} ]] || fail "there is no fault '$name' in $list; there are: ${names[*]}"
done

mkdir -p "$folder"
read_seconds
total=0
for name in "${chosen[@]}"; do total=$((total + ${seconds[$name]:-seconds_guessed})); done
echo "${#chosen[@]} faults, about $(((total + 59) / 60)) minutes after the tests were built and passed without any"

copy_sources
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER:-ccache} CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD}; fi
(cd "$tree" && cmake --preset ci) >"$logs/configure" 2>&1 || fail "cmake failed: $logs/configure"
check_sound "${chosen[@]}"

missed=0
for name in "${chosen[@]}"; do try "$name" || missed=$((missed + 1)); done
echo "$((${#chosen[@]} - missed)) of ${#chosen[@]} faults are caught"
((missed == 0))
