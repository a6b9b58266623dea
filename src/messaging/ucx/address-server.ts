/**
 * Where peers of other hosts learn the address of a worker: a TCP port that says it to whoever connects. UCX's addresses are hundreds of bytes long; this way
 * a listener is named by host and port, as everywhere. An endpoint from ucp_listener has the transports of one interface, the one that
 * its sockets went over: no shared memory, no second rail.
 */

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { MessagingError } from '../errors.js';

const PATIENCE_MS = 5000;

/** The address by which others reach this host: of the first interface that is not the loopback. */
function ownIp(interfaces: readonly string[]): string {
  const all = Object.entries(networkInterfaces());
  const named = all.filter(([name]) => interfaces.includes(name));
  const usable = (named.length > 0 ? named : all)
    .flatMap(([, addresses = []]) => addresses)
    .filter(({ family }) => family === 'IPv4');
  return (named.length > 0 ? usable[0] : usable.find(({ internal }) => !internal))?.address ?? '127.0.0.1';
}

export class AddressServer {
  private readonly server: Server;
  private readonly ip: string;

  private constructor(server: Server, ip: string) {
    this.server = server;
    this.ip = ip;
  }

  static async open(address: string, interfaces: readonly string[]): Promise<AddressServer> {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.end(address);
    });
    server.unref();
    server.listen(0, '0.0.0.0');
    await once(server, 'listening');
    return new AddressServer(server, ownIp(interfaces));
  }

  /** 'ip:port/name'. */
  targetOf(name: string): string {
    return `${this.ip}:${(this.server.address() as AddressInfo).port}/${name}`;
  }

  close(): void {
    this.server.close();
  }
}

/** The address of the worker behind a port. Throws MSG_REFUSED. */
export async function askAddress(ip: string, port: number): Promise<string> {
  const socket = connect(port, ip);
  socket.setTimeout(PATIENCE_MS, () => socket.destroy(new Error('no answer')));
  let address = '';
  try {
    for await (const chunk of socket) address += (chunk as Buffer).toString('latin1');
  } catch (error) {
    throw new MessagingError('MSG_REFUSED', `nobody listens at ${ip}:${port}: ${(error as Error).message}`);
  }
  return address;
}
