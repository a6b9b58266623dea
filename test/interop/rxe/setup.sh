#!/bin/bash
# Makes what boot.sh needs: a Debian kernel with rdma_rxe, unpacked aside, and an initramfs with the modules it takes. Needs root for packages
# that are missing. Prints the kernel's version. LAB: where to put it (default: build/rxe of the clone).
set -eu
SELF=$(cd "$(dirname "$0")" && pwd)
LAB=${LAB:-$(cd "$(dirname "$0")/../../.." && pwd)/build/rxe}
case $(uname -m) in
  x86_64) ARCH=amd64 QEMU=qemu-system-x86 PROGRAM=qemu-system-x86_64 ;;
  aarch64) ARCH=arm64 QEMU=qemu-system-arm PROGRAM=qemu-system-aarch64 ;;
  *) echo "no kernel for $(uname -m)" >&2; exit 2 ;;
esac
mkdir -p "$LAB/kernel"
MISSING=
for command in $PROGRAM busybox depmod cpio xz ip nft cc rdma ibv_rc_pingpong rping ib_write_bw; do command -v $command >/dev/null || MISSING="$MISSING $command"; done
[ -f /usr/include/infiniband/verbs.h ] || MISSING="$MISSING libibverbs-dev"
if [ -n "$MISSING" ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >&2
  apt-get install -y -qq --no-install-recommends $QEMU busybox-static kmod cpio xz-utils iproute2 nftables gcc libc6-dev libibverbs-dev librdmacm-dev rdma-core ibverbs-utils ibverbs-providers rdmacm-utils perftest >&2
fi
KERNEL=$(ls "$LAB/kernel/boot" 2>/dev/null | sed -n 's/^vmlinuz-//p' | head -1)
if [ -z "$KERNEL" ]; then
  KERNEL=$(apt-cache depends linux-image-$ARCH | sed -n 's/.*Depends: linux-image-\([0-9].*\)/\1/p' | head -1)
  (cd "$LAB" && apt-get download "linux-image-$KERNEL" >&2 && dpkg -x linux-image-"$KERNEL"_*.deb kernel && rm linux-image-*.deb)
  depmod -b "$LAB/kernel" "$KERNEL"
fi
ROOT=$LAB/initramfs
MODULES=$LAB/kernel/lib/modules/$KERNEL
rm -rf "$ROOT"
mkdir -p "$ROOT"/{bin,dev,proc,sys,newroot,"lib/modules/$KERNEL"}
cp "$(command -v busybox)" "$ROOT/bin/busybox"
ln -s bin "$ROOT/sbin" # where the kernel looks for modprobe
# rxe asks for crc32_generic when it starts; no list of dependencies names it.
for module in virtio_pci virtio_mmio virtio_net 9pnet_virtio 9p overlay rdma_rxe ib_uverbs rdma_ucm af_packet crc32_generic crc32c_generic; do
  modprobe -d "$LAB/kernel" -S "$KERNEL" --show-depends $module 2>/dev/null | awk '$1 == "insmod" { print $2 }' || true
done | sort -u | while read -r file; do
  to=$ROOT${file#"$LAB/kernel"}
  mkdir -p "$(dirname "$to")"
  cp "$file" "$to"
  case $file in *.xz) xz -d "$to" ;; esac
done
cp "$MODULES"/modules.{order,builtin} "$ROOT/lib/modules/$KERNEL/"
depmod -b "$ROOT" "$KERNEL" 2>/dev/null
cp "$SELF/init.sh" "$ROOT/init"
chmod +x "$ROOT/init"
(cd "$ROOT" && find . | cpio -o -H newc --quiet | gzip -1) > "$LAB/initramfs.gz"
cc -O1 -o "$LAB/atomics" "$SELF/atomics.c" -libverbs
cc -O1 -shared -fPIC -o "$LAB/pattern.so" "$SELF/pattern.c"
echo "$KERNEL"
