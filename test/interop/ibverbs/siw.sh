#!/bin/bash
# Builds siw.ko, the kernel's soft iWARP, for the kernel that ../rxe/setup.sh unpacked: Debian's kernels come without it. Needs the packages' sources
# from the mirror (150 MB), make and gcc. LAB: as in setup.sh.
set -eu
LAB=${LAB:-$(cd "$(dirname "$0")/../../.." && pwd)/build/rxe}
KERNEL=$(ls "$LAB/kernel/boot" | sed -n 's/^vmlinuz-//p' | head -1)
mkdir -p "$LAB/siw"
cd "$LAB/siw"
[ -f "siw-$KERNEL.ko" ] && exit 0
ARCH=${KERNEL##*-}
SERIES=$(echo "$KERNEL" | cut -d. -f1,2)
apt-get download "linux-headers-$KERNEL" "linux-headers-${KERNEL%-"$ARCH"}-common" "linux-kbuild-$SERIES" "linux-source-$SERIES" >&2
for package in linux-headers-*.deb linux-kbuild-*.deb; do dpkg -x "$package" .; done
dpkg --fsys-tarfile linux-source-*.deb | tar x "./usr/src/linux-source-$SERIES.tar.xz"
SOURCE=linux-source-$SERIES/drivers/infiniband/sw/siw
tar xJf "usr/src/linux-source-$SERIES.tar.xz" "$SOURCE"
rm -f ./*.deb "usr/src/linux-source-$SERIES.tar.xz"
sed -i "s#include /usr/src/#include $PWD/usr/src/#" "usr/src/linux-headers-$KERNEL/Makefile"
make -s -C "usr/src/linux-headers-$KERNEL" M="$PWD/$SOURCE" CONFIG_RDMA_SIW=m modules >&2
strip --strip-debug -o "siw-$KERNEL.ko" "$SOURCE/siw.ko"
