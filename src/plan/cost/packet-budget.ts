/**
 * The packet budget: how many packets a link carries per second, how many nanoseconds that leaves for each, and how many cores a software stack needs.
 *
 * At 400 Gb/s and 1500 B there are 33 million packets a second, 30 ns each; at 1.6 Tb/s 133 million, 7.5 ns: less than one trip to memory. That is
 * the case for RDMA, where the NIC handles packets and the CPU sees messages.
 */
import { requireNumber } from '../refusal.js';

export interface PacketOptions {
  /** Bits per second. */
  readonly bitsPerSecond: number;
  /** Bytes per packet. Default 1500. */
  readonly packetBytes?: number;
  /** Bytes on the wire besides (preamble, gap, checksum): 20 for small-packet Ethernet figures. Default 0. */
  readonly framingBytes?: number;
  /** Nanoseconds of CPU per packet in the kernel stack. Default 1000, an assumption. */
  readonly kernelNs?: number;
  /** Nanoseconds of CPU per packet with mapped queues (DPDK style). Default 80, an assumption. */
  readonly mappedQueueNs?: number;
  /** Bytes of one RDMA message, which is what the CPU sees. Default 1 MiB. */
  readonly messageBytes?: number;
  /** Nanoseconds of CPU per RDMA message. Default 200, an assumption. */
  readonly messageNs?: number;
}

export interface PacketBudget {
  readonly packetsPerSecond: number;
  readonly nsPerPacket: number;
  /** Bytes per second of packet descriptors (about 200 B each in the kernel). */
  readonly descriptorBytesPerSecond: number;
  readonly cores: {
    readonly kernel: number;
    /** Of `kernel`: making and freeing packet descriptors, which mapped queues save. Measured at 64 B; per packet, so it is taken for every size. */
    readonly kernelDescriptors: number;
    readonly mappedQueues: number;
    readonly rdma: number;
  };
}

/** Bytes of the kernel's descriptor per packet. */
const SK_BUFF_BYTES = 200;
/** Its share of the CPU time of a kernel that receives packets of 64 B: initialising, allocating and freeing it, with the memory subsystem (PacketShader, 2010). */
const SK_BUFF_SHARE = 0.63;

export function packetBudget(o: PacketOptions): PacketBudget {
  const bits = requireNumber('bitsPerSecond', o.bitsPerSecond, 1);
  const bytes = requireNumber('packetBytes', o.packetBytes ?? 1500, 1);
  const framing = requireNumber('framingBytes', o.framingBytes ?? 0, 0);
  const packetsPerSecond = bits / 8 / (bytes + framing);
  const kernel = (packetsPerSecond * (o.kernelNs ?? 1000)) / 1e9;
  const messages = bits / 8 / requireNumber('messageBytes', o.messageBytes ?? 2 ** 20, 1);
  return {
    packetsPerSecond,
    nsPerPacket: 1e9 / packetsPerSecond,
    descriptorBytesPerSecond: packetsPerSecond * SK_BUFF_BYTES,
    cores: {
      kernel,
      kernelDescriptors: kernel * SK_BUFF_SHARE,
      mappedQueues: (packetsPerSecond * (o.mappedQueueNs ?? 80)) / 1e9,
      rdma: (messages * (o.messageNs ?? 200)) / 1e9,
    },
  };
}
