/**
 * What the C addon exports, typed. native/addon.c is the other side of this file.
 *
 * Addresses and handles are numbers (user addresses are below 2^53). Functions without arguments are the hot ones: they read the block that
 * `command()` returns. Where a function returns an errno, 0 is success; where it returns a descriptor or handle, a negative value is -errno.
 */

/** Address of memory, or an opaque handle that is one. */
export type Address = number;

export interface Addon {
  /** The shared block: Float64 0..3 arguments, 4 result, 64-bit words 5..7 operands (5 add or compare, 6 old value, 7 swap). */
  command(): ArrayBuffer;

  /** memcpy: 0 to, 1 from, 2 length. */
  copy(): void;
  /** process_vm_writev: 0 remote address, 1 local address, 2 length, 3 pid; 4 becomes the errno. */
  writeProcess(): void;
  /** process_vm_readv: 0 local address, 1 remote address, 2 length, 3 pid; 4 becomes the errno. */
  readProcess(): void;
  /** 0 address, word 5 addend; word 6 becomes the old value. */
  fetchAdd(): void;
  /** 0 address, word 5 compare, word 7 swap; word 6 becomes the old value. */
  compareSwap(): void;
  /** 0 head of the completion queue, 1 ring, 2 solicited, 3 bell; 4 becomes 1 when a system call was made. */
  notify(): void;
  /** 0 bell descriptor. */
  ring(): void;
  /** 0 transfer; 4 becomes 1 when a piece was copied. */
  transferHelp(): void;

  /** 0 fast path (native/fast-path.h), 1 messages at most; 4 becomes the index of the first packet that it leaves alone, or -errno. */
  fastReceive(): void;
  /** 0 fast path, 1 index of a packet of the last batch; 4 becomes the index of the next one that it leaves alone. */
  fastContinue(): void;
  /**
   * 0 fast path, 1 queue pair, 2 packets at most, 3 packets in the batch, 5 whether the batch leaves then; 4 becomes 0, 1 or -1 (then it does not leave),
   * 5 the packets in the batch.
   */
  fastSend(): void;
  /** 0 fast path, 1 packets in the batch: they leave. */
  fastLeave(): void;
  /** 0 datagram, 1 microseconds, or below 0 for no limit; 4 becomes 1 when one is there. Blocks the calling thread. */
  datagramWait(): void;
  /** 0 datagram, 1 address of a number, 2 and 3 microseconds: sleeps while the number changes every 2, until 3 at most, or until it is woken. 4 becomes 1 when the number stands still. */
  datagramWatch(): void;
  /** 0 datagram. Ends its wait or watch, from any thread. */
  datagramWake(): void;

  /** Vectors that do not overlap: 0 own, 1 other, 2 elements, 3 type, 4 operation, 5 divisor; own becomes own op other, as native/reduce.h says. */
  reduce(): void;
  /** Float64 16 which kernel, 17 and on its arguments and results; 4 becomes 0. src/nn/kernels.ts names them. */
  kernel(): void;

  /** membarrier for this process; an errno where the kernel has none. */
  registerBarrier(): number;
  /** Makes every running thread of every registered process pass a full barrier. */
  barrier(): number;

  /** A memfd. */
  create(name: string, hugePages: number): number;
  /** An unnamed file in a memory file system. */
  createIn(directory: string): number;
  /** 0, or an errno. `node`: the NUMA node, or -1. */
  reserve(fd: number, offset: number, length: number, node: number): number;
  release(fd: number, offset: number, length: number): number;
  /** [mapping, address of its first byte], or an errno. `stop` ends the mapping, and closes fd if told so here; views of it go on. */
  map(
    fd: number,
    offset: number,
    length: number,
    writable: number,
    closeFd: number,
  ): [mapping: Address, address: Address] | number;
  /** An ArrayBuffer over a part of a mapping; the mapping lives as long as any view. */
  view(mapping: Address, offset: number, length: number): ArrayBuffer;
  /** An ArrayBuffer over memory of another thread of this process. The caller keeps the owner's buffer alive as long as this one is used. */
  viewAt(address: Address, length: number): ArrayBuffer;
  /** Of a buffer's first byte, or of the first one that a typed array shows; only by that way of a SharedArrayBuffer's. */
  addressOf(bytes: ArrayBuffer | ArrayBufferView): Address;
  isDetached(buffer: ArrayBuffer): boolean;

  /** [bell, descriptor to write to], or an errno. The callback runs when somebody rang. */
  bellOpen(callback: () => void): [bell: Address, fd: number] | number;
  /** Whether the bell keeps the event loop alive. */
  bellHold(bell: Address, on: number): void;
  bellClose(bell: Address): void;

  /** At the end of this thread or at stop(): sets the state word to 2, clears the two announcement words at every added peer, and calls it. */
  farewellOpen(state: Address): Address;
  farewellAdd(farewell: Address, attention: Address, bell: number, announcements: Address): void;
  farewellRemove(farewell: Address, attention: Address): void;

  watchStart(attention: Address, bell: number): Address;
  watchAdd(watch: Address, pid: number, startTime: number, word: Address): number;
  watchRemove(watch: Address, handle: number): void;

  watcherStart(cpu: number, bell: number): Address;
  watcherAdd(watcher: Address, cq: Address): number;
  watcherRemove(watcher: Address, cq: Address): void;
  watcherAsleep(watcher: Address): number;
  watcherWake(watcher: Address): void;

  transferStart(done: Address, error: Address, bell: number): Address;
  /** `parts`: four numbers each, to, from, length, kind. Returns an errno; EAGAIN when 256 are outstanding. */
  transferSubmit(
    transfer: Address,
    parts: Float64Array,
    count: number,
    pid: number,
    announcement: Address,
    announce: number,
    serial: Address,
    expected: number,
    slot: Address,
    entry: Int32Array,
    cq: Address,
    ring: number,
    solicited: number,
    bell: number,
  ): number;
  transferRingAtEnd(transfer: Address, on: number): void;

  /** A bound UDP socket for RoCEv2, ended by `stop`. `network`: file of a network namespace, or ''. Port 0 is the kernel's choice. */
  datagramOpen(network: string, address: string, port: number, bufferBytes: number): Address;
  datagramPort(datagram: Address): number;
  /** Bytes that the kernel queues for it, as the kernel counts. */
  datagramBuffer(datagram: Address): number;
  /** Joins a multicast group, a numeric address. Returns the number of the group, or -errno. */
  datagramJoin(datagram: Address, group: string, port: number): number;
  datagramLeave(datagram: Address, group: number): void;

  /**
   * Connects the lifeline of a rank and starts its thread: `board` as src/launch/board.ts draws it, a numeric address, the ticket as text.
   * Waits up to 10 s. Returns the liveness, or -errno.
   */
  livenessStart(board: Address, bell: number, address: string, port: number, ticket: string): Address;
  livenessWatch(liveness: Address, rank: number, pid: number, startTime: number): number;
  /** Tells the coordinator that this process ends with this exit code. */
  livenessLeave(liveness: Address, code: number): void;
  /** From now on this process ends, by SIGKILL, when the other end of `fd` closes. Returns an errno. */
  guardStart(fd: number): number;

  /** [collective, descriptor of its control segment], or an errno. Closed by `stop`. */
  collectiveOpen(rank: number, size: number): [collective: Address, fd: number] | number;
  /** Maps the control segment of a peer. Returns an errno. */
  collectiveJoin(collective: Address, rank: number, pid: number, fd: number): number;
  /** Handle of the shared memory around an address, or -1 when it is private. */
  collectiveShare(collective: Address, address: Address): number;
  /** 0 address of the call block. Waits for its end. */
  collectiveRun(): void;
  /** Runs the call on a thread; the word at 13 of the block becomes 1, and the bell rings. Returns an errno. */
  collectiveSubmit(block: Address): number;
  collectiveAbort(collective: Address): void;
  /** Calls completed. */
  collectiveCompleted(collective: Address): number;
  /** 0 alive, 1 the process ended, 2 it closed or broke the communicator. */
  collectivePeer(collective: Address, rank: number): number;

  /** A kernel of native/dataset.h, at once. `call`: 80 numbers, 0 which, then its arguments and results. Returns an errno. */
  datasetCall(call: Float64Array): number;
  /** The same on a thread of Node's pool. */
  datasetRun(call: Float64Array): Promise<number>;
  /** Gives an unnamed file a name. Returns an errno: EEXIST where the name is taken. */
  datasetName(fd: number, path: string): number;

  /** Ends a watch, a watcher, a transfer thread, a liveness thread, a datagram socket or says a farewell. */
  stop(resource: Address): void;

  /** [start time, state letter code], or undefined when there is no such process, or no more file can be opened to look. */
  processStat(pid: number): [startTime: number, state: number] | undefined;
  /** 1 when the process that started then has ended for sure. */
  isGone(pid: number, startTime: number): number;
  allowTracing(pid: number): number;
  /** Pins the calling thread to a core. */
  pin(cpu: number): number;
  /** Asks for time slices of the calling thread of this length, so that it runs soon after a wake; 100 us is the least. Returns an errno. */
  shortenSlice(microseconds: number): number;
  threadId(): number;
  peerUid(fd: number): number;
  /** Sets a variable of the process's environment where it has none, for libraries: a worker thread's process.env is a copy that they do not see. */
  environmentDefault(name: string, value: string): void;
}
