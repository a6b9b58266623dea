#!/bin/busybox sh
# The first process of the guest: the host's file system, read-only under a layer of memory, then the script that boot.sh was given.
/bin/busybox mkdir -p /proc /sys /dev /ro /rw /newroot
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec >/dev/console 2>&1 </dev/console
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
for module in virtio_pci virtio_mmio virtio_net 9pnet_virtio 9p overlay; do modprobe $module; done
option() { for word in $(cat /proc/cmdline); do case $word in $1=*) echo "${word#*=}" ;; esac; done; }
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro hostroot /ro || poweroff -f
mount -t tmpfs -o size=75% tmpfs /rw
mkdir -p /rw/upper /rw/work
mount -t overlay -o lowerdir=/ro,upperdir=/rw/upper,workdir=/rw/work overlay /newroot || poweroff -f
root=/newroot
mount -t proc proc $root/proc
mount -t sysfs sys $root/sys
mount --bind /dev $root/dev
mkdir -p $root/dev/shm $root/lib/modules $root/share
mount -t tmpfs tmpfs $root/dev/shm
mount -t tmpfs tmpfs $root/run
ln -sf /proc/self/fd /dev/fd
mount --bind /lib/modules $root/lib/modules
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none share $root/share || poweroff -f
ip link set lo up
ip addr add "$(option guestip)" dev eth0
ip link set eth0 up
chroot $root /bin/bash /share/run.sh
echo $? > $root/share/status
sync
poweroff -f
