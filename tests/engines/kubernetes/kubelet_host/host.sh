#!/bin/sh
# host.sh DIRECTORY NODE PORT CGROUP: a host with dockerd and a kubelet, in namespaces for mounts and processes of its own,
# so that nothing is left of it when its first process is killed. dockerd has a network of its own, too: in the host's it would
# remove a docker0 that is there. The kubelet, which is asked to change nothing of its network, shares that of the API server.
# DIRECTORY has what RealKubelet puts there.
set -eu
directory=$1 node=$2 port=$3 cgroup=$4
programs=$(dirname "$0")

mount --make-rprivate /
# Where these programs keep what they cannot be told to keep elsewhere.
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mkdir "$directory/state"
mount -t tmpfs tmpfs "$directory/state"
# A kubelet meets device plugins at a place that cannot be chosen. Those of a test reach it under DIRECTORY.
mount -t tmpfs tmpfs /var/lib
mkdir -p /var/lib/kubelet/device-plugins "$directory/state/kubelet/pod-resources"
mount --bind "$directory/device-plugins" /var/lib/kubelet/device-plugins
# A kubelet binds its own directory onto itself unless it is shared, and so would hide what is mounted in it.
mount --bind "$directory/state/kubelet" "$directory/state/kubelet"
mount --make-shared "$directory/state/kubelet"
mount --bind "$directory/pod-resources" "$directory/state/kubelet/pod-resources"
# A kubelet sets these for the whole machine. It finds copies of its own.
for knob in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    mkdir -p "$directory/state/sysctl/${knob%/*}"
    cat "/proc/sys/$knob" >"$directory/state/sysctl/$knob"
    mount --bind "$directory/state/sysctl/$knob" "/proc/sys/$knob"
done

export DOCKER_HOST=unix:///run/docker.sock
unshare --net dockerd --host "$DOCKER_HOST" --data-root "$directory/state/docker" --exec-root /run/docker --pidfile /run/docker.pid \
    --add-runtime "runc-here=$programs/../../../docker/runc.sh" --default-runtime runc-here --oom-score-adjust 0 \
    --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "$cgroup" \
    --bridge none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false --userland-proxy=false \
    >"$directory/dockerd.log" 2>&1 &
until [ -S /run/docker.sock ] && docker version >/dev/null 2>&1; do
    kill -0 $! # dockerd has not ended
    sleep 0.1
done
docker import "$directory/image.tar" test/train:1 >/dev/null
# What holds the namespaces of a pod. It reaps nobody and ends at once.
docker import --change 'ENTRYPOINT ["sh", "-c", "trap \"exit 0\" TERM; sleep infinity & wait"]' \
    "$directory/image.tar" test/pause:1 >/dev/null

# Cgroups of pods are left out: those of containers are what limits them. So is eviction, as how full this machine is says
# nothing. A kubelet that ends is started again, as a service manager does it.
kubelet() {
"$KUBEBUILDER_ASSETS/kubelet" --kubeconfig "$directory/kubelet.kubeconfig" --hostname-override "$node" \
    --address "$node" --port "$port" --healthz-port 0 --read-only-port 0 --anonymous-auth=false \
    --client-ca-file "$directory/clients.crt" --cert-dir "$directory/state/certificates" \
    --root-dir "$directory/state/kubelet" --volume-plugin-dir "$directory/state/volume-plugins" \
    --container-runtime docker --docker-endpoint "$DOCKER_HOST" --pod-infra-container-image test/pause:1 \
    --network-plugin cni --cni-conf-dir "$directory/networks" --cni-bin-dir "$directory/cni" --cni-cache-dir "$directory/state/cni" \
    --cgroup-driver cgroupfs --cgroups-per-qos=false --enforce-node-allocatable= --oom-score-adj 0 \
    --eviction-hard 'memory.available<1Mi' --image-gc-high-threshold 100 \
    --fail-swap-on=false --make-iptables-util-chains=false --resolv-conf "$directory/resolv.conf" \
    --node-status-update-frequency 1s --v 2 >>"$directory/kubelet.log" 2>&1 &
echo $! >"$directory/kubelet.pid"
wait $! || true
}
while kubelet && [ -e "$directory/restart" ]; do rm "$directory/restart"; done
