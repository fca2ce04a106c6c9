#!/bin/sh
# head.sh DISK HOME: the machine of the server. It shares files and processes with that of the tests, but for what OpenSSH
# reads of its account's HOME.
set -eu
disk=$1 home=$2
mount --make-rprivate /
hostname head
mkdir -p "$disk/upper" "$disk/work"
mount -t overlay -o "lowerdir=$home,upperdir=$disk/upper,workdir=$disk/work" head "$home"
echo ready
exec sleep infinity
