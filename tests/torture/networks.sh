#!/usr/bin/env bash
# Processes on machines of their own, as far as the network can tell: each is in a network namespace with its own host name,
# and they reach each other by a cable (veth) alone. mpirun starts them by a hostfile. A recipe trained by two of them writes
# the file that two workers of one process write; then one of them loses its cable, and both end soon.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

left_out() {
  note "left out: $1"
  finish
  exit
}
command -v mpirun >/dev/null || left_out 'there is no mpirun (apt-get install openmpi-bin)'
command -v ip >/dev/null || left_out 'there is no ip (apt-get install iproute2)'
first=caravan-a$$ second=caravan-b$$
ip netns add "$first" 2>/dev/null || left_out 'network namespaces may not be made here; it needs root'
remove_networks() {
  ip netns del "$first" 2>/dev/null || true
  ip netns del "$second" 2>/dev/null || true
  end_part
}
trap remove_networks EXIT
if ! { ip netns add "$second" && ip link add va netns "$first" type veth peer name vb netns "$second"; } 2>/dev/null; then
  left_out 'a cable between network namespaces may not be made here'
fi
for end in "$first va 10.99.7.1" "$second vb 10.99.7.2"; do
  read -r network device address <<<"$end"
  ip -n "$network" addr add "$address/24" dev "$device"
  ip -n "$network" link set "$device" up
  ip -n "$network" link set lo up
done

# What mpirun calls instead of ssh: HOST COMMAND. Each machine has a host name of its own.
cat >login <<EOF
#!/bin/sh
shift
exec ip netns exec $second unshare --uts sh -c 'hostname $second; export HOME=$scratch; exec "\$@"' sh sh -c "\$*"
EOF
chmod 755 login
printf '10.99.7.1 slots=1\n10.99.7.2 slots=1\n' >hosts
on_both=(ip netns exec "$first" unshare --uts sh -c "hostname $first; exec \"\$@\"" sh
  mpirun --allow-run-as-root -n 2 --map-by node --hostfile "$scratch/hosts" --mca plm_rsh_agent "$scratch/login"
  --mca oob_tcp_if_include 10.99.7.0/24 --mca btl_tcp_if_include 10.99.7.0/24 --mca btl tcp,self
  -x CARAVAN_CACHE -x LC_ALL "$caravan")

recipes=(linear moons circle multiply-small multiply-large mnist-mlp names-bigram names-mlp names-mlp-bn names-wavenet mnist-conv
  mnist-autoencoder names-transformer shakespeare-gpt)
declare -A how=([linear]='--steps 50' [moons]='--steps 50' [circle]='--steps 50 --batch 4' [multiply-small]='--steps 50 --batch 4'
  [multiply-large]='--steps 50 --batch 4' [mnist-autoencoder]='--steps 20 --batch 12' [shakespeare-gpt]='--steps 2 --batch 4'
  [mnist-mlp]='--steps 20 --batch 12' [mnist-conv]='--steps 4 --batch 8' [names-bigram]='--steps 50' [names-mlp]='--steps 20'
  [names-mlp-bn]='--steps 20' [names-wavenet]='--steps 4' [names-transformer]='--steps 2')
next=0 longest=0
while more 28; do
  recipe=${recipes[next++ % ${#recipes[@]}]}
  begin "$recipe on two machines"
  read -ra steps <<<"${how[$recipe]}"
  train=(train "$recipe" "${steps[@]}" --threads 1 --quiet)
  "$caravan" "${train[@]}" --devices 2 --save "$here/workers" >"$here/output" 2>&1 || wrong "two workers cannot train it"
  "${on_both[@]}" "${train[@]}" --save "$here/machines" >"$here/output" 2>&1 || wrong "two machines cannot train it"
  cmp -s "$here/workers" "$here/machines" || wrong "two machines computed other bits than two workers"
done

begin 'the cable is cut'
"${on_both[@]}" train moons --epochs 1000000 --threads 1 --quiet --save "$here/run" --save-every 0.2 >"$here/output" 2>&1 &
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
ip -n "$second" link set vb down
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
