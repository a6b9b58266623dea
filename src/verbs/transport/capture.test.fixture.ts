/**
 * Reads the RoCEv2 packets out of a capture file (classic pcap, Ethernet frames, IPv4), for tests that replay real traffic.
 */

/** One captured RoCEv2 datagram. `bth` and `end` are offsets in `bytes`; the ICRC stands at `end`. */
export interface CapturedPacket {
  /** The number of the frame in the file, from 1, as Wireshark shows it. */
  readonly frame: number;
  readonly source: Uint8Array;
  readonly destination: Uint8Array;
  readonly sourcePort: number;
  readonly destinationPort: number;
  readonly identification: number;
  readonly bytes: Uint8Array;
  readonly bth: number;
  readonly end: number;
}

const ROCE_PORT = 4791;

/** All datagrams to port 4791 in `file`, in order. Throws on a file that is no little-endian Ethernet pcap. */
export function readCapture(file: Uint8Array): CapturedPacket[] {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (view.getUint32(0, true) !== 0xa1b2c3d4) throw new Error('not a little-endian pcap file with microsecond times');
  if (view.getUint32(20, true) !== 1) throw new Error(`link type ${view.getUint32(20, true)}: only Ethernet (1) is read here`);
  const packets: CapturedPacket[] = [];
  let at = 24;
  for (let frame = 1; at < file.length; frame++) {
    const captured = view.getUint32(at + 8, true);
    const ip = at + 16 + 14;
    at += 16 + captured;
    if (view.getUint16(ip - 2) !== 0x0800 || file[ip + 9] !== 17) continue;
    const udp = ip + (file[ip] & 15) * 4;
    if (view.getUint16(udp + 2) !== ROCE_PORT) continue;
    packets.push({
      frame,
      source: file.subarray(ip + 12, ip + 16),
      destination: file.subarray(ip + 16, ip + 20),
      sourcePort: view.getUint16(udp),
      destinationPort: ROCE_PORT,
      identification: view.getUint16(ip + 4),
      bytes: file,
      bth: udp + 8,
      end: udp + view.getUint16(udp + 4) - 4,
    });
  }
  return packets;
}
