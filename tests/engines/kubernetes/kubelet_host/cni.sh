#!/bin/sh
# Network plugins: `test` gives each pod one address that leads nowhere, as one without any is made again and again;
# `loopback`, which a kubelet calls too, finds its device up.
set -eu
case ${0##*/}:$CNI_COMMAND in
*:VERSION) echo '{"cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0"]}' ;;
test:ADD)
    inside() { nsenter --net="$CNI_NETNS" ip "$@"; }
    inside link add "$CNI_IFNAME" type veth peer name other
    inside address add 192.0.2.2/32 dev "$CNI_IFNAME"
    inside link set "$CNI_IFNAME" up
    echo '{"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "192.0.2.2/32"}]}'
    ;;
loopback:ADD) echo '{"cniVersion": "0.4.0"}' ;;
esac
