# Runs in the guest: rxe on eth0, then each step of the test beside it, announced on the console.
modprobe rdma_rxe
modprobe rdma_ucm
rdma link add rxe0 type rxe netdev eth0
GID=$(for i in 0 1 2 3; do grep -q ffff: /sys/class/infiniband/rxe0/ports/1/gids/$i 2>/dev/null && echo $i && break; done)
OWN=$(ip -o -4 addr show eth0 | sed 's/.*inet \([0-9.]*\).*/\1/')
HOST=${OWN%.*}.$((${OWN##*.} - 1)) # the address before it
echo "READY gid=$GID kernel=$(uname -r)"
step() {
  echo "STEP $1"
  shift
  timeout 60 "$@" > /tmp/step.log 2>&1
  local status=$?
  sed 's/^/  | /' /tmp/step.log | tail -8
  echo "END $status"
}
pingpong() { # name, transport, port, further options
  step "$1-kernel-listens" ibv_$2_pingpong -d rxe0 -g $GID -p $3 "${@:4}"
  step "$1-kernel-connects" ibv_$2_pingpong -d rxe0 -g $GID -p $(($3 + 1)) "${@:4}" $HOST
}
pingpong rc rc 18510 -n 200 -s 64
pingpong rc-3000 rc 18520 -n 50 -s 3000
pingpong rc-mib rc 18530 -n 5 -s 1048576
pingpong uc uc 18540 -n 50 -s 1000
pingpong ud ud 18550 -n 50 -s 1000
step atomics-kernel-listens /share/atomics rxe0 $GID 18570
perftest() { # name, tool, port, further options
  step "$1-kernel-listens" env LD_PRELOAD=/share/pattern.so $2 -d rxe0 -x $GID -p $(($3 + 10)) -n 100 -F "${@:4}"
  step "$1-kernel-connects" env LD_PRELOAD=/share/pattern.so $2 -d rxe0 -x $GID -p $3 -n 100 -F "${@:4}" $HOST
}
perftest write-bw ib_write_bw 18600 -s 65536
perftest read-bw ib_read_bw 18601 -s 65536
perftest send-bw ib_send_bw 18602 -s 3000
perftest atomic-bw ib_atomic_bw 18603
step rping-kernel-listens rping -s -a $OWN -p 7174 -C 20 -S 4000 -V
step rping-kernel-connects rping -c -a $HOST -p 7175 -C 20 -S 4000 -V
pingpong rc-loss rc 18560 -n 200 -s 3000 # from here on the host loses packets
echo "COUNTERS $(cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep -H . * | grep -v ':0$' | tr '\n' ' ')"
