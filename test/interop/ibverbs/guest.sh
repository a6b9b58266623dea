# Runs in the guest, after lines that set ROOT (the clone), NODE, OWN, HOST and NOBODY (addresses). Prints what the test on the host reads.
modprobe rdma_rxe
modprobe rdma_ucm
rdma link add rxe0 type rxe netdev eth0
export HOME=/root
cd "$ROOT"
echo "READY kernel=$(uname -r)"
run() { # name, seconds, command
  local start=$SECONDS name=$1 limit=$2
  shift 2
  timeout "$limit" "$@" 2>&1
  echo "END $name status=$? seconds=$((SECONDS - start))"
}
sanitized() { # command: with the addon that has sanitizers. Node itself has none: its own leaks are not ours, and it handles SIGSEGV for WebAssembly
  LD_PRELOAD=$SANITIZER VERBENA_ADDON_IBVERBS=$SANITIZED ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:allow_user_segv_handler=1 "$@"
}
suite() { # name, seconds, file
  local start=$SECONDS
  timeout "$2" "$NODE" --test-reporter=tap "dist/test/interop/ibverbs/$3" > /tmp/suite.tap 2>&1
  local status=$?
  grep -E '^CAPABILITIES|^ +(not ok|ok .* # SKIP)|^ +error: |ERROR: AddressSanitizer|runtime error: ' /tmp/suite.tap | sed 's/^ */  | /'
  echo "SUITE $1 status=$status $(grep -E '^# (tests|pass|fail|skipped)' /tmp/suite.tap | tr -d '#\n') seconds=$((SECONDS - start))"
}
siw() { # takes the interface over from rxe: rdma-cm knows one device for an address
  rdma link delete rxe0
  insmod "$ROOT/build/rxe/kernel/lib/modules/$(uname -r)/kernel/lib/libcrc32c.ko"
  insmod "$ROOT/build/rxe/siw/siw-$(uname -r).ko" && rdma link add siw0 type siw netdev eth0 && run siw 60 "$NODE" dist/test/interop/ibverbs/siw.js
}
