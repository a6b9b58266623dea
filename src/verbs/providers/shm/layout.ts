/**
 * The control segment: what a context shows to its peers. Everything a peer needs to play this context's NIC stands here; bulk memory and
 * receive rings stand in further segments that the segment table lists.
 *
 * All numbers are 32-bit words (i32 index) unless a name ends in F64 (index of a 64-bit float in the same memory). One 32-bit word is the unit
 * of every atomic; 64-bit floats are written before the word that publishes them. Layouts change only with VERSION.
 *
 * ```
 *   0        header          magic, version, state, identity, attention, retired counters
 *   4 KiB    segments        4,096 x 32 B    descriptor number, size, address at the owner
 *   132 KiB  initiators      4,094 x 64 B    who may be copying here right now, and under which key
 *   388 KiB  completion qs   1,024 x 256 B   armed word, moderation, ready bitmap
 *   644 KiB  multicast       512 x 32 B      group, queue pair
 *   660 KiB  watch words     4,096 x 4 B     0 running, 1 stopped, 2 dead (of this context's peers)
 *   1 MiB    queue pairs     16,384 x 256 B  state, destination, receive ring, counters
 *   5 MiB    regions         65,536 x 64 B   serial, rights, range, segment
 * ```
 * The file is sparse: only touched pages exist.
 */

export const MAGIC = 0x56424e41; // "VBNA"
export const VERSION = 1;

export const CONTROL_BYTES = 9 << 20;
export const CONTROL_NAME = 'verbena-ctl';

// Header words.
export const H_MAGIC = 0;
export const H_VERSION = 1;
/** 1 live, 2 ended. */
export const H_STATE = 2;
export const H_PID = 3;
export const H_UID = 4;
/** Descriptor of the bell's writing end in the owner. */
export const H_BELL = 5;
export const H_THREAD = 6;
export const H_CONTROL_FD = 7;
export const H_START_F64 = 4;
export const H_ID_LO = 10;
export const H_ID_HI = 11;
/** Length of the name; its bytes stand at NAME_BYTE. */
export const H_NAME_LENGTH = 12;
/** 1: the owner calls membarrier when it arms a queue or revokes a key, so peers may use plain accesses (ordering.ts). */
export const H_BARRIER = 13;
export const NAME_BYTE = 64;
export const NAME_MAX = 60;
/** Counts everything the owner should look at; pollers load it every time. In a cache line of its own. */
export const H_ATTENTION = 32;
/** Grows when a multicast group of the host changes. */
export const H_MULTICAST = 33;
/** The attention value up to which the owner has looked: peers reuse rings only after that. */
export const H_ACKNOWLEDGED = 34;
/** Totals of closed queue pairs: COUNTERS floats. */
export const H_RETIRED_F64 = 24;
/** One more than the highest index ever used in each table. */
export const H_QP_HIGH = 64;
export const H_INITIATOR_HIGH = 65;
export const H_CQ_HIGH = 66;
/** Bytes of segments (arena, rings) this context holds. */
export const H_SEGMENT_BYTES_F64 = 34;

export const STATE_LIVE = 1;
export const STATE_ENDED = 2;

// Segment table: 8 words each. fd + 1 (0: free), writable, size (f64 1), address (f64 2), serial (never used twice).
export const SEGMENTS = 4096 / 4;
export const SEGMENT_WORDS = 8;
export const SEGMENT_MAX = 4096;
export const SEG_FD = 0;
export const SEG_WRITABLE = 1;
export const SEG_SIZE_F64 = 1;
export const SEG_ADDRESS_F64 = 2;
export const SEG_SERIAL = 6;

// Initiators: 16 words each. Index + 1 is the owner in claims (12 bits).
export const INITIATORS = (132 << 10) / 4;
export const INITIATOR_WORDS = 16;
export const INITIATOR_MAX = 4094;
/** 0 free, 1 being claimed, 2 live. */
export const IN_STATE = 0;
export const IN_PID = 1;
export const IN_ID_LO = 2;
export const IN_ID_HI = 3;
export const IN_START_F64 = 2;
/** Region index + 1 that the initiator's JavaScript thread is copying under, or 0. */
export const IN_ANNOUNCE = 8;
/** The same for its transfer thread. */
export const IN_ANNOUNCE_TRANSFER = 9;

// Completion queues: 64 words each; native/notify.h draws the same.
export const CQS = (388 << 10) / 4;
export const CQ_WORDS = 64;
export const CQ_MAX = 1024;
export const CQ_WORD = 0;
export const CQ_DEPTH = 1;
export const CQ_OVERRUN = 2;
export const CQ_MODERATION_COUNT = 3;
export const CQ_PENDING = 4;
export const CQ_MODERATION_PERIOD = 5;
export const CQ_READY = 6;
export const CQ_THREAD_ARMED = 7;
export const CQ_BITS = 16;
export const CQ_BIT_WORDS = 32;
/** Counters of the queue, floats in the order of CQ_COUNTER_NAMES. */
export const CQ_COUNTERS_F64 = 24;
export const CQ_COUNTER_NAMES = ['operations', 'bytes', 'errors', 'systemCalls'] as const;
export const ARMED_ANY = 1;
export const ARMED_SOLICITED = 2;
export const KEEP_BITMAP = 4;
/** The owner sleeps often: producers pass a barrier of their own, so that arming needs none (ordering.ts). */
export const FENCED = 8;

// Multicast memberships: 8 words each. qpNum + 1 (0: free), then 4 words of group.
export const MULTICASTS = (644 << 10) / 4;
export const MULTICAST_WORDS = 8;
export const MULTICAST_MAX = 512;

export const WATCH_WORDS = (660 << 10) / 4;
export const WATCH_MAX = 4096;

// Queue pairs: 64 words each. The number is the index.
export const QPS = (1 << 20) / 4;
export const QP_WORDS = 64;
export const QP_MAX = 16384;
/** epoch << 4 | position in QP_STATES + 1; 0: no such queue pair. Every change that a peer must see raises the epoch. */
export const QP_STATE = 0;
export const QP_TYPE = 1;
export const QP_PD = 2;
export const QP_ACCESS = 3;
export const QP_DEST = 4;
export const QP_DEST_ID_LO = 5;
export const QP_DEST_ID_HI = 6;
/** Q_Key of UD, DC key of a DCT. */
export const QP_KEY = 7;
export const QP_RECV_CQ = 8;
/** Number of its ring within that queue, for the ready bitmap. */
export const QP_CQ_RING = 9;
export const QP_RING_SEGMENT = 10;
/** Byte offset of the ring in its segment. */
export const QP_RING_OFFSET_F64 = 6;
/** Number of slots, a power of two. */
export const QP_RING_DEPTH = 14;
/** Words of one request. */
export const QP_RING_STRIDE = 15;
/** 1: the ring is shared (srq, UD, DCT) and slots are claimed; 0: one producer. */
export const QP_RING_SHARED = 16;
export const QP_MIN_RNR_TIMER = 17;
/** Counts the lives: a reset starts a new one, and a peer of the old one is not connected any more. */
export const QP_LIFE = 18;
/** READs and atomics that the responder accepts at a time; 0 refuses them. */
export const QP_READ_RESOURCES = 19;
/** Written by peers: 0, or 1 access error, 2 invalid request; the owner takes the queue pair to ERR. */
export const QP_REMOTE_FAULT = 24;
/** Counters: COUNTERS floats from here. */
export const QP_COUNTERS_F64 = 16;

/** Order of the counters. `copiedOut` are the bytes that the receiver copied out of entries; every sent byte was copied once by its sender. */
export const COUNTER_NAMES = ['operations', 'bytes', 'copiedOut', 'systemCalls', 'errors', 'received', 'receivedBytes'] as const;
export const C_OPERATIONS = 0;
export const C_BYTES = 1;
export const C_COPIED_OUT = 2;
export const C_SYSTEM_CALLS = 3;
export const C_ERRORS = 4;
export const C_RECEIVED = 5;
export const C_RECEIVED_BYTES = 6;
export const COUNTERS = 7;

// Regions: 16 words each. A key is index << 8 | low byte of the serial.
export const REGIONS = (5 << 20) / 4;
export const REGION_WORDS = 16;
export const REGION_MAX = 65536;
/** Unique and not 0 while the region is registered. */
export const MR_SERIAL = 0;
export const MR_ACCESS = 1;
export const MR_PD = 2;
export const MR_KIND = 3;
export const MR_ADDRESS_F64 = 2;
export const MR_LENGTH_F64 = 3;
export const MR_SEGMENT = 8;
/** Offset of the first byte in the segment; for UMR the offset of the descriptor. */
export const MR_OFFSET_F64 = 5;
/** UMR: number of runs of the descriptor, RUN_F64 floats each: key, first block, block length, stride, blocks. */
export const MR_PARTS = 12;
export const RUN_F64 = 5;
export const KIND_MAPPED = 1;
export const KIND_PRIVATE = 2;
export const KIND_UMR = 3;

/**
 * A receive ring, in an arena segment. Senders write the entries, the receiver the head and the requests.
 *
 * ```
 *   head        [ tail | smallest length | consumer | ... claim hint ]                 64 B; the hint is the senders'
 *   entry 0     [ seq | flags | byteLen | imm | srcQp | qp | payload 40 B ]            64 B, a completion
 *   entry 1 ... entry depth-1                                                          next to each other: a stream prefetches
 *   request 0   [ claim | sges | length | - | {addr f64, length, lkey} ... ]           64 B or more, a receive request
 *   request 1 ... request depth-1
 * ```
 * Both are used by position: position p stands at p mod depth, is posted when p < tail, and is complete when the entry's seq is p + 1. Payloads of up to
 * 40 bytes ride in the entry, and the receiver copies them out when it polls: one cache line moves and nothing else.
 */
export const RING_HEAD_WORDS = 16;
export const RING_TAIL = 0;
export const RING_SMALLEST = 1;
export const RING_CONSUMER = 2;
export const RING_HINT = 8;
/** completion opcode | status << 8 | SLOT_* bits << 16. */
export const SLOT_FLAGS = 1;
export const SLOT_BYTES = 2;
export const SLOT_IMM = 3;
export const SLOT_SRC_QP = 4;
export const SLOT_QP = 5;
export const SLOT_PAYLOAD = 6;
export const SLOT_PAYLOAD_BYTES = 40;
/** Words of an entry. */
export const SLOT_WORDS = 16;
export const REQUEST_CLAIM = 0;
export const REQUEST_SGES = 1;
export const REQUEST_LENGTH = 2;
/** First element of the list; 4 words each: address (f64), length, lkey. */
export const REQUEST_SGE = 4;
export const SLOT_WITH_IMM = 1;
export const SLOT_GRH = 2;
export const SLOT_INLINE = 4;
export const SLOT_SOLICITED = 8;

/** Words of a request for a list of this many elements: a multiple of a cache line. */
export function requestWords(maxSge: number): number {
  return (REQUEST_SGE + maxSge * 4 + 15) & ~15;
}
