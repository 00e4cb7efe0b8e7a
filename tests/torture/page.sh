#!/usr/bin/env bash
# Clients that are slow, silent, greedy or gone, while others ask the page for something good: those are answered, memory stays
# bounded, and the server ends when it is told to.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$caravan" train mnist-mlp --quiet --steps 5 --save "$scratch/digits.safetensors" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2 && exit 1; }
most_megabytes=160   # of the server's memory; 40 with nobody there
seconds_to_end=6     # after a signal
clients=()           # connections in the background

start_server() {
  env --default-signal=INT "$caravan" serve "$scratch/digits.safetensors" --port 0 >"$scratch/address" 2>"$scratch/serve.err" &
  server=$!
  left_running=("$server")
  local waited
  for ((waited = 0; waited < 1000; ++waited)); do
    port=$(sed -nE 's/.*http:\/\/127\.0\.0\.1:([0-9]+).*/\1/p' "$scratch/address")
    if [[ -n $port ]] && good; then return; fi
    pause 20
  done
  cat "$scratch/serve.err" >&2
  exit 1
}
# good: is a request that is right answered within two seconds?
good() { [[ $(curl -s -m 2 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/api/status") == 200 ]]; }
megabytes() { awk '/^VmHWM:/ { print int($2 / 1024) }' "/proc/$server/status"; }

# client COMMAND...: what the command prints goes to the server, on a connection in the background.
client() {
  ( exec 3<>"/dev/tcp/127.0.0.1/$port" && "$@" >&3 ) 2>/dev/null &
  clients+=($!)
}
end_clients() {
  local process
  for process in "${clients[@]}"; do kill -KILL "$process" 2>/dev/null || true; done
  for process in "${clients[@]}"; do wait "$process" 2>/dev/null || true; done
  clients=()
}
slowly() { printf 'GET / HTTP/1.1\r\nX: ' && while printf a; do sleep 0.5; done; }
silently() { exec sleep 60; }
endless_headers() {
  printf 'GET / HTTP/1.1\r\n'
  local k line=
  for ((k = 0; k < 500; ++k)); do line+="X-$k: aaaaaaaaaaaaaaaaaaaa"$'\r\n'; done
  while printf '%s' "$line"; do :; done
}
endless_line() { printf 'GET / HTTP/1.1\r\nX: ' && exec tr '\0' a </dev/zero; }
slow_body() { printf 'POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{' && while printf ' '; do sleep 0.5; done; }

# stop_server SIGNAL: it ends within a few seconds, with exit status 0.
stop_server() {
  local status=0 waited
  kill "-$1" "$server"
  for ((waited = 0; waited < 10 * seconds_to_end; ++waited)); do
    kill -0 "$server" 2>/dev/null || break
    pause 100
  done
  if kill -0 "$server" 2>/dev/null; then
    wrong "it runs on $seconds_to_end seconds after SIG$1"
    kill -KILL "$server"
  fi
  wait "$server" 2>/dev/null || status=$?
  left_running=()
  ((status == 0 || status == 137)) || wrong "exit status $status after SIG$1: $(cat "$scratch/serve.err")"
}
answers() {  # while the clients are there
  local k
  for ((k = 0; k < ${1:-5}; ++k)); do
    good || { wrong "a good request was not answered within 2 s" && break; }
  done
  if (($(megabytes) > most_megabytes)); then wrong "the server took $(megabytes) MB"; fi
}
many() {  # COUNT BEHAVIOUR
  local k
  for ((k = 0; k < $1; ++k)); do client "$2"; done
  pause 1000
}

# --- the tries ---
one_slow_client() { many 1 slowly && answers; }
a_hundred_slow_clients() { many 100 slowly && answers 20; }
slow_bodies() { many 75 slow_body && answers; }
silent_clients() { many 300 silently && answers; }
endless_headers_of_four() { many 4 endless_headers && pause 3000 && answers; }
an_endless_line() { many 4 endless_line && pause 3000 && answers; }
many_ranges() {
  local whole ranged
  whole=$(curl -s -m 5 "http://127.0.0.1:$port/" | wc -c)
  ranged=$(curl -s -m 20 -H "Range: bytes=0-$(printf ',0-%.0s' {1..2000})" "http://127.0.0.1:$port/" | wc -c)
  ((ranged <= whole + 1000)) || wrong "asked for ranges, it sent $ranged bytes of a page of $whole"
  answers
}
clients_that_leave() {
  local k
  for ((k = 0; k < 100; ++k)); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET /api/examples HTTP/1.1\r\nHost: localhost\r\n\r\n' >&3) 2>/dev/null || true
  done
  answers
}
junk() {
  local k
  for ((k = 0; k < 30; ++k)); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port" && head -c $((RANDOM % 3000)) /dev/urandom >&3) 2>/dev/null || true
  done
  answers
}
other_host() {
  local code
  code=$(curl -s -m 5 -o /dev/null -w '%{http_code}' -H 'Host: elsewhere.example' "http://127.0.0.1:$port/api/status")
  [[ $code == 421 ]] || wrong "a request for another host name got $code"
}

ways=(one_slow_client a_hundred_slow_clients slow_bodies silent_clients endless_headers_of_four an_endless_line many_ranges clients_that_leave junk other_host)
signals=(INT TERM)
while more 20; do
  start_server
  way=${ways[tries % ${#ways[@]}]} signal=${signals[tries % 2]}
  begin "${way//_/ }, then SIG$signal"
  "$way"
  stop_server "$signal"  # while the clients are still there
  end_clients
done
finish
