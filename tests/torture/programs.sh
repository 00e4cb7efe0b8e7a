#!/usr/bin/env bash
# Random programs, each run compiled and interpreted: loops fused and not, every pass left out once, reversed axes and negative
# strides, every precision; and programs of integers, by the library, as text and as exported C. The tests that know
# CARAVAN_TEST_PROGRAMS make them; here they go on where the tests end, a few groups at a time, on all processors.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mapfile -t tests_of_programs < <(grep -l CARAVAN_TEST_PROGRAMS "$TORTURE_SOURCES"/tests/*_test.cpp | xargs -n 1 basename -s .cpp)
programs=20000  # there are of each kind
in_turn=1000    # parts that this is cut into

# programs_in_a_group TEST: one parameter of the test is so many programs. Asked of the list of its parameters.
programs_in_a_group() {
  CARAVAN_TEST_PROGRAMS=$programs "$tests/$1" --gtest_list_tests | sed -n 's/.*GetParam() = //p' | awk 'NR == 2 { print $1 - first } { first = $1 }'
}

# run_part TEST PART: the tests of one part, in the folder of the sources that the tests are run in.
run_part() {
  (cd "$TORTURE_SOURCES" && CARAVAN_TEST_PROGRAMS=$programs GTEST_TOTAL_SHARDS=$in_turn GTEST_SHARD_INDEX=$2 "$tests/$1")
}

declare -A together
for test in "${tests_of_programs[@]}"; do together[$test]=$(programs_in_a_group "$test"); done
at=$((RANDOM % in_turn))
while more 2000; do
  at=$(((at + 1) % in_turn))
  running=()
  for test in "${tests_of_programs[@]}"; do
    run_part "$test" "$at" >"$scratch/$test" 2>&1 &
    running+=($!)
  done
  left_running=("${running[@]}")
  for k in "${!tests_of_programs[@]}"; do
    test=${tests_of_programs[k]}
    status=0
    wait "${running[k]}" || status=$?
    begin "part $at of $in_turn of $test"
    cp "$scratch/$test" "$here/output"
    groups=$(grep -c '^\[ RUN' "$here/output" || true)
    tries=$((tries - 1 + groups * together[$test]))
    ((status == 0)) || wrong "exit status $status: $(grep -m 1 -E 'Failure|seed' "$here/output" || tail -n 1 "$here/output")"
  done
  left_running=()
done
finish
