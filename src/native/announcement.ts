/**
 * A short text under a name on this host, from one process to the others of its user: where a listener is, how to join a job.
 *
 * It is a unix socket in the abstract namespace that hands the text to whoever connects. Such a name has no file and ends with its process, however that
 * ends; the kernel says who is at the other end, so that another user neither reads a text nor passes off one of his own. Names belong to a network
 * namespace: elsewhere one goes by address.
 */

import { createHash } from 'node:crypto';
import { connect, createServer, type Socket } from 'node:net';
import type { Addon } from './addon.js';
import { loadAddon } from './load.js';

/** Ends the announcement: the name is free at once. */
export type Withdraw = () => void;

const ownUid = (): number => process.getuid?.() ?? 0;

function pathOf(kind: string, name: string): string {
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 32);
  return `\0verbena-${kind}-${ownUid()}-${digest}`;
}

function isOwn(socket: Socket, { peerUid }: Addon): boolean {
  const { fd = -1 } = (socket as unknown as { _handle?: { fd?: number } })._handle ?? {};
  return fd >= 0 && peerUid(fd) === ownUid();
}

/** Announces `text`; it keeps no process alive. Returns undefined when the name is taken (or no descriptor is left). */
export function announce(kind: string, name: string, text: string): Withdraw | undefined {
  const addon = loadAddon();
  const server = createServer((socket) => {
    socket.on('error', () => {});
    if (isOwn(socket, addon)) socket.end(`${text}\n`);
    else socket.destroy();
  });
  // Node binds at once and reports a failure later: until then an unbound server says that it does not listen.
  server.on('error', () => {});
  server.listen({ path: pathOf(kind, name), exclusive: true });
  if (!server.listening) return undefined;
  server.unref();
  return () => void server.close();
}

/** What is announced under a name. Rejects with what the system said when nobody of this user does, and with ETIMEDOUT when he does not answer in time. */
export function inquire(kind: string, name: string, timeoutMs: number): Promise<string> {
  const addon = loadAddon(); // before the time counts: the first load may compile
  return new Promise((resolve, reject) => {
    const socket = connect(pathOf(kind, name));
    let text = '';
    const timer = setTimeout(() => socket.destroy(Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' })), timeoutMs);
    socket.once('connect', () => {
      if (!isOwn(socket, addon)) socket.destroy(new Error('the other end belongs to another user'));
    });
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('error', reject);
    socket.on('close', () => {
      clearTimeout(timer);
      if (text.endsWith('\n')) resolve(text.slice(0, -1));
      else reject(new Error('the other end closed early'));
    });
  });
}
