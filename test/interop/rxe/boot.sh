#!/bin/bash
# boot.sh SCRIPT TAP ADDRESS/BITS: boots the guest with its interface on the host's TAP and runs SCRIPT in it as root. Its output comes on stdout;
# SCRIPT's exit status is the one of this. TIMEOUT: seconds until it is killed (default 240). LAB: as in setup.sh.
set -u
LAB=${LAB:-$(cd "$(dirname "$0")/../../.." && pwd)/build/rxe}
KERNEL=$(ls "$LAB/kernel/boot" | sed -n 's/^vmlinuz-//p' | head -1)
SHARE=$LAB/share.$$
mkdir -p "$SHARE"
trap 'rm -rf "$SHARE"' EXIT
cp "$1" "$SHARE/run.sh"
cp "$LAB/atomics" "$LAB/pattern.so" "$SHARE/"
# no_timer_check: on a busy host the emulated timer seems not to tick, and the kernel would give up.
case $(uname -m) in
  x86_64) MACHINE=(qemu-system-x86_64 -M q35 -cpu Westmere) CONSOLE=ttyS0 ;;
  aarch64) MACHINE=(qemu-system-aarch64 -M virt -cpu cortex-a72) CONSOLE=ttyAMA0 ;;
esac
timeout -k 5 "${TIMEOUT:-240}" "${MACHINE[@]}" -accel tcg,thread=multi -smp 2 -m 1G -nodefaults -no-reboot -display none -serial stdio -monitor none \
  -kernel "$LAB/kernel/boot/vmlinuz-$KERNEL" -initrd "$LAB/initramfs.gz" \
  -append "console=$CONSOLE quiet panic=-1 no_timer_check mitigations=off nokaslr net.ifnames=0 guestip=$3" \
  -virtfs local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap \
  -virtfs local,path="$SHARE",mount_tag=share,security_model=none,multidevs=remap \
  -netdev "tap,id=n0,ifname=$2,script=no,downscript=no" -device virtio-net-pci,netdev=n0,romfile= </dev/null
exit "$(cat "$SHARE/status" 2>/dev/null || echo 99)"
