#!/bin/sh
# dockerd.sh DIRECTORY CGROUP: a dockerd that is started again whenever it ends, with mounts and a network of its own: in the
# host's it would remove a docker0 that is there. Its containers are processes of this host like any others.
set -eu
directory=$1 cgroup=$2
here=$(dirname "$0")

mount --make-rprivate /
ip link set lo up
# Where these programs keep what they cannot be told to keep elsewhere.
mount -t tmpfs tmpfs /run
mkdir "$directory/state"
mount -t tmpfs tmpfs "$directory/state"

# In place of NVIDIA's, so that a daemon without GPUs takes requests for some: what it was asked for is in the container.
mkdir "$directory/bin"
printf '#!/bin/sh\n' >"$directory/bin/nvidia-container-runtime-hook"
chmod +x "$directory/bin/nvidia-container-runtime-hook"
export PATH="$PATH:$directory/bin"

printf '{"live-restore": true}' >"$directory/daemon.json"
while :; do
    dockerd --host "unix://$directory/docker.sock" --data-root "$directory/state/docker" --exec-root /run/docker \
        --pidfile "$directory/docker.pid" --add-runtime "runc-here=$here/runc.sh" --default-runtime runc-here \
        --oom-score-adjust 0 --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "$cgroup" \
        --bridge none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false --userland-proxy=false \
        --config-file "$directory/daemon.json" >>"$directory/dockerd.log" 2>&1 || true
    # What a killed one leaves keeps the next from starting.
    rm -f "$directory/docker.pid"
    while [ -e "$directory/down" ]; do sleep 0.05; done
done
