#!/bin/sh
# keeper.sh DIRECTORY PACKAGES: keeps the disks of a lab's machines, in memory, and the bridge between them, in namespaces of
# its own. It ends with the test, and all of them with it. PACKAGES is a tree of programs that every host has besides.
set -eu
directory=$1 packages=$2
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$directory/disks"
mkdir -p "$directory/disks/packages/usr"
if [ "$packages" != / ]; then
    cp -a "$packages/usr/." "$directory/disks/packages/usr/"
fi
ip link set lo up
ip link add wire type bridge
# A bridge that looks for loops lets nothing through for half a minute.
ip link set wire type bridge stp_state 0 forward_delay 0
ip link set wire up
echo ready
exec sleep infinity
