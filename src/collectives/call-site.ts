/** Where a call stands in the user's program, and what it asks for: what a rank tells the others when their calls do not fit together. */

import { fileURLToPath } from 'node:url';
import type { Plan } from './plan.js';
import type { Request } from './request.js';

const HERE = new URL('.', import.meta.url).href;
/** This folder as stack frames name it: compiled, and as source maps show it. */
const OWN_FOLDERS = [HERE, fileURLToPath(HERE), fileURLToPath(HERE).replace(/\/dist\/src\/collectives\/$/, '/src/collectives/')];
/** Stack frames that are looked at: the collectives' own, and the caller's. */
const FRAMES = 20;

/** Remembers where it is called from; the text is made when somebody asks. */
export function traceHere(): Error {
  const before = Error.stackTraceLimit;
  Error.stackTraceLimit = FRAMES;
  const trace = new Error('call');
  Error.stackTraceLimit = before;
  return trace;
}

/** 'file:line:column' of the first frame outside the collectives; 'an unknown place' where there is none. */
export function siteOf(trace: Error): string {
  for (const line of (trace.stack ?? '').split('\n').slice(1)) {
    if (line.includes('node:') || OWN_FOLDERS.some((folder) => line.includes(folder))) continue;
    const place = /\(?((?:file:\/\/)?[^\s()]+:\d+:\d+)\)?$/.exec(line)?.[1];
    if (place === undefined) continue;
    const [, file, at] = /^(.*?)(:\d+:\d+)$/.exec(place) ?? [];
    return file?.startsWith('file://') ? fileURLToPath(file) + at : place;
  }
  return 'an unknown place';
}

/** What must agree among the ranks of a call, by name. */
export type Signature = Readonly<Record<string, string | number>>;

export function signatureOf(request: Request, { selection, method, schedule }: Plan): Signature {
  const { collective, count, type, reduction, root = 0, shards, counts = [] } = request;
  return {
    operation: collective,
    // The counts of an all-to-all differ from rank to rank, and its elements with them.
    elements: collective === 'all-to-all' && counts.length > 0 ? 'by counts' : count,
    type,
    reduction: reduction ?? 'none',
    root,
    algorithm: schedule?.algorithm ?? selection?.algorithm.name ?? method,
    segments: selection?.shape.segments ?? 1,
    shards: shards ?? 0,
    counts: collective === 'all-to-all' ? '' : shortened(counts.map((list) => list?.join(' ') ?? '').join('|')),
  };
}

/** Long lists are told apart by a number. */
function shortened(text: string): string {
  if (text.length <= 200) return text;
  let h = 0;
  for (let i = 0; i < text.length; i++) h = (Math.imul(h, 31) + text.charCodeAt(i)) | 0;
  return `${text.slice(0, 100)}... (${h >>> 0})`;
}

/** What a rank says about its call. */
export interface Statement {
  readonly rank: number;
  readonly signature: Signature;
  readonly site: string;
}

/** The message of COLL_MISMATCH: both calls, where they stand, and what differs. */
export function describeMismatch(own: Statement, other: Statement): string {
  const differs = Object.keys(own.signature).filter((name) => own.signature[name] !== other.signature[name]);
  return `${inWords(own)}, ${inWords(other)}: they differ in ${differs.join(', ') || 'nothing that is known'}`;
}

function inWords({ rank, signature, site }: Statement): string {
  const { operation, elements, type, reduction, root, algorithm } = signature;
  const combined = reduction === 'none' ? '' : `, ${reduction}`;
  return `rank ${rank} called ${operation}(${elements} x ${type}${combined}, root ${root}, ${algorithm}) at ${site}`;
}
