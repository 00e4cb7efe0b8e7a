#!/usr/bin/env bash
# Processes on machines of their own, as far as the network can tell: each is in a network namespace with its own host name,
# and they reach each other by cables (veth) and a switch (bridge) alone. mpirun starts them by a hostfile. A recipe trained on
# two, three and four of them writes the file that one device writes; then one of two loses its cable, and both end soon.
# TORTURE_RECIPES="names-wavenet shakespeare-gpt" tries these recipes instead of all.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

left_out() {
  note "left out: $1"
  finish
  exit
}
command -v mpirun >/dev/null || left_out 'there is no mpirun (apt-get install openmpi-bin)'
command -v ip >/dev/null || left_out 'there is no ip (apt-get install iproute2)'
machines=4 prefix=caravan-$$-
first=${prefix}1 second=${prefix}2 switch=${prefix}switch
ip netns add "$switch" 2>/dev/null || left_out 'network namespaces may not be made here; it needs root'
remove_networks() {
  local k
  for ((k = 1; k <= machines; ++k)); do
    { ip netns pids "$prefix$k" | xargs -r kill -KILL; } 2>/dev/null || true
    ip netns del "$prefix$k" 2>/dev/null || true
  done
  ip netns del "$switch" 2>/dev/null || true
  end_part
}
trap remove_networks EXIT
if ! { ip -n "$switch" link add hub type bridge && ip -n "$switch" link set hub up; } 2>/dev/null; then
  left_out 'a switch between network namespaces may not be made here'
fi
for ((k = 1; k <= machines; ++k)); do
  if ! { ip netns add "$prefix$k" && ip link add "port$k" netns "$switch" type veth peer name cable netns "$prefix$k"; } 2>/dev/null; then
    left_out 'a cable between network namespaces may not be made here'
  fi
  ip -n "$switch" link set "port$k" master hub
  ip -n "$switch" link set "port$k" up
  ip -n "$prefix$k" addr add "10.99.7.$k/24" dev cable
  ip -n "$prefix$k" link set cable up
  ip -n "$prefix$k" link set lo up
  echo "10.99.7.$k slots=1" >>hosts
done

# What mpirun calls instead of ssh: HOST COMMAND. Each machine has a host name of its own.
cat >login <<EOF
#!/bin/sh
machine=$prefix\${1##*.}
shift
export HOME=$scratch
exec ip netns exec \$machine unshare --uts sh -c 'hostname \$0; exec sh -c "\$*"' \$machine "\$@"
EOF
chmod 755 login
# What on_machines COUNT ARGUMENT... runs: the command on so many machines.
on_machines() {
  local count=$1
  shift
  run_there=(ip netns exec "$first" unshare --uts sh -c "hostname $first; exec \"\$@\"" sh
    mpirun --allow-run-as-root -n "$count" --map-by node --hostfile "$scratch/hosts" --mca plm_rsh_agent "$scratch/login"
    --mca oob_tcp_if_include 10.99.7.0/24 --mca btl_tcp_if_include 10.99.7.0/24 --mca btl tcp,self
    -x CARAVAN_CACHE ${CARAVAN_DATA:+-x CARAVAN_DATA} -x LC_ALL "$caravan" "$@")
}

# Little text, so that what follows training is quick.
mkdir data
for ((k = 0; k < 300; ++k)); do
  printf 'an%s\n' "$(tr 0-9 a-j <<<"$k")" >>data/names.txt
  printf 'Speaker %s:\nSo it is said, and said again.\n\n' $((k % 7)) >>data/tinyshakespeare.txt
done

# All of them add up sums over the batch in twelve parts, so that all bits are the same after 50 steps.
read -ra recipes <<<"${TORTURE_RECIPES:-linear moons circle multiply-small multiply-large mnist-mlp names-bigram names-mlp names-mlp-bn \
  names-wavenet mnist-conv mnist-autoencoder names-transformer shakespeare-gpt}"
next=0 longest=0
while more "${#recipes[@]}"; do
  recipe=${recipes[next++ % ${#recipes[@]}]}
  begin "$recipe on several machines"
  train=(train "$recipe" --batch 12 --parts 12 --until 50 --threads 1 --quiet)
  [[ $recipe != names-* && $recipe != shakespeare-* ]] || train+=(--data "$scratch/data")
  "$caravan" "${train[@]}" --save "$here/one" >"$here/output" 2>&1 || wrong 'one device cannot train it'
  for ((count = 2; count <= machines; ++count)); do
    on_machines "$count" "${train[@]}" --save "$here/machines"
    timeout -k 10 300 "${run_there[@]}" >"$here/output" 2>&1 || case $? in
      124 | 137) wrong "$count machines, or mpirun after them, had not ended after five minutes" ;;
      *) wrong "$count machines cannot train it" ;;
    esac
    cmp -s "$here/one" "$here/machines" || wrong "$count machines computed other bits than one device"
    rm -f "$here/machines"
  done
done

begin 'the cable is cut'
on_machines 2 train moons --epochs 1000000 --threads 1 --quiet --save "$here/run" --save-every 0.2
"${run_there[@]}" >"$here/output" 2>&1 &
run=$!
left_running=("$run")
for ((waited = 0; waited < 600; ++waited)); do
  if [[ -s $here/run ]]; then break; fi
  pause 50
done
trainers() {  # how many processes train
  local process
  for process in $(ip netns pids "$first") $(ip netns pids "$second"); do cat "/proc/$process/comm" 2>/dev/null || true; done | grep -c '^caravan$' || true
}
ip -n "$second" link set cable down
from=${EPOCHREALTIME/./} longest=0
while (($(trainers) > 0 && longest < 30000)); do
  pause 100
  longest=$(((${EPOCHREALTIME/./} - from) / 1000))
done
((longest < 15000)) || wrong "both processes had ended only after $longest ms"
# mpirun itself waits for its daemon on the other machine, as long as TCP does.
for process in $(ip netns pids "$first") $(ip netns pids "$second"); do kill -KILL "$process" 2>/dev/null || true; done
wait "$run" 2>/dev/null && wrong 'the run ended as if nothing had happened'
step=$("$caravan" summary "$here/run" --json 2>/dev/null | sed -nE 's/.*"step":([0-9]+).*/\1/p')
"$caravan" train moons --resume "$here/run" --until "${step:-0}" --save "$here/end" --quiet >"$here/output" 2>&1 ||
  wrong 'one device cannot go on from what was saved'
note "a cut cable ended both processes after $longest ms"
finish
