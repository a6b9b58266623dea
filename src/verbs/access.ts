/**
 * Access rights of a memory region and of a queue pair, as libibverbs' IBV_ACCESS_* bits, with a readable form.
 */

/** Rights given at registration. Local read is always allowed. Each defaults to false. */
export interface Access {
  /** The local device may write here: receive buffers, READ and atomic results need it. Implied by the remote write and atomic rights. */
  localWrite?: boolean;
  /** Peers may WRITE here. */
  remoteWrite?: boolean;
  /** Peers may READ from here. */
  remoteRead?: boolean;
  /** Peers may run atomics here. */
  remoteAtomic?: boolean;
  /** Pages are brought in when touched instead of at registration (IBV_ACCESS_ON_DEMAND). Needs the `onDemand` capability. */
  onDemand?: boolean;
}

/** The owner's own receives and reads may write. */
export const ACCESS_LOCAL_WRITE = 1;
/** Peers may WRITE. */
export const ACCESS_REMOTE_WRITE = 2;
/** Peers may READ. */
export const ACCESS_REMOTE_READ = 4;
/** Peers may use atomics. */
export const ACCESS_REMOTE_ATOMIC = 8;
/** Pages are taken when they are used (ODP). */
export const ACCESS_ON_DEMAND = 64;

const BITS: Readonly<Record<keyof Access, number>> = {
  localWrite: ACCESS_LOCAL_WRITE,
  remoteWrite: ACCESS_REMOTE_WRITE,
  remoteRead: ACCESS_REMOTE_READ,
  remoteAtomic: ACCESS_REMOTE_ATOMIC,
  onDemand: ACCESS_ON_DEMAND,
};

/** The bits of a readable access description. Throws a TypeError on an unknown right. */
export function accessBits(access: Access): number {
  let bits = 0;
  for (const [name, on] of Object.entries(access)) {
    const bit = BITS[name as keyof Access];
    if (bit === undefined) {
      throw new TypeError(`unknown access right '${name}': use ${Object.keys(BITS).join(', ')}`);
    }
    if (on) bits |= bit;
  }
  if (bits & (ACCESS_REMOTE_WRITE | ACCESS_REMOTE_ATOMIC)) bits |= ACCESS_LOCAL_WRITE;
  return bits;
}

/** The readable form of access bits, for messages: "remote read, remote write". */
export function accessWords(bits: number): string {
  const words: string[] = [];
  if (bits & ACCESS_LOCAL_WRITE) words.push('local write');
  if (bits & ACCESS_REMOTE_WRITE) words.push('remote write');
  if (bits & ACCESS_REMOTE_READ) words.push('remote read');
  if (bits & ACCESS_REMOTE_ATOMIC) words.push('remote atomic');
  if (bits & ACCESS_ON_DEMAND) words.push('on demand');
  return words.length > 0 ? words.join(', ') : 'local read only';
}
