#!/bin/sh
# host.sh NAME DISK PACKAGES SHARED CHECKOUT: a host in namespaces of its own, until its first process, which this is, is
# killed. It has the files of this machine, and what it writes is on its DISK, which outlasts it. Only SHARED is one with the
# other hosts, at the same path.
set -eu
name=$1 disk=$2 packages=$3 shared=$4 checkout=$5
root=$disk/root
groups=$(awk '$3 ~ /^cgroup2?$/ { print $2 " " $3 " " $4 }' /proc/self/mounts)

mount --make-rprivate /
hostname "$name"
mkdir -p "$disk/upper" "$disk/work" "$root"
mount -t overlay -o "lowerdir=$packages:/,upperdir=$disk/upper,workdir=$disk/work" "$name" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
echo "$groups" | while read -r where kind options; do
    mkdir -p "$root$where"
    # A controller of version 1 is named among the options of its mount.
    case $kind in
    cgroup2) options=rw ;;
    *) options=$(echo "$options" | sed 's/rw,//; s/relatime,\{0,1\}//; s/^,//; s/,$//') ;;
    esac
    mount -t "$kind" -o "$options" "$kind" "$root$where"
done
mount --rbind /dev "$root/dev"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755,size=64m tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
for there in "$shared" "$checkout"; do
    mkdir -p "$root$there"
    mount --bind "$there" "$root$there"
done
mount -o remount,bind,ro "$root$checkout"
# Each boot of each host has an id of its own, as on machines that are not one.
cat /proc/sys/kernel/random/uuid >"$root/run/boot-id"
mount --bind "$root/run/boot-id" "$root/proc/sys/kernel/random/boot_id"

mkdir -p "$root/.before"
cd "$root"
pivot_root . .before
umount -l /.before
exec </dev/null

ip link set lo up
mkdir -p /run/sshd
/usr/sbin/sshd -E /var/log/sshd.log
echo ready
# It reaps what has lost its parent.
while :; do
    sleep infinity &
    wait $! || true
done
