/**
 * A unix socket that speaks in the messages of connection management: one a line, JSON.
 *
 * ```
 *   { v: 1, t: 'REQ' | 'REP' | 'REJ' | 'RTU' | 'DREQ', address?, privateData?: base64, reason? }
 * ```
 */

import type { Socket } from 'node:net';
import type { QpAddress } from '../../queue-pair.js';

const VERSION = 1;
const LONGEST_LINE = 4096;

export interface Message {
  readonly v: number;
  readonly t: 'REQ' | 'REP' | 'REJ' | 'RTU' | 'DREQ';
  readonly address?: QpAddress;
  readonly privateData?: string;
  readonly reason?: string;
}

export class ConnectionSocket {
  readonly socket: Socket;
  onMessage: (message: Message) => void = () => {};
  onEnd: (reason: string, code?: string) => void = () => {};
  #text = '';
  #ended = false;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding('utf8');
    socket.on('data', (chunk: string) => this.#take(chunk));
    socket.on('error', (error: NodeJS.ErrnoException) => this.end(error.message, error.code));
    socket.on('close', () => this.end('the peer closed the connection or ended'));
  }

  #take(chunk: string): void {
    this.#text += chunk;
    if (this.#text.length > LONGEST_LINE && !this.#text.includes('\n')) {
      this.end('the peer sent something that is no connection message');
      return;
    }
    for (let at = this.#text.indexOf('\n'); at >= 0; at = this.#text.indexOf('\n')) {
      const line = this.#text.slice(0, at);
      this.#text = this.#text.slice(at + 1);
      try {
        const message = JSON.parse(line) as Message;
        if (message.v !== VERSION)
          throw new Error(`message version ${message.v}, this side speaks ${VERSION}: update the older side`);
        this.onMessage(message);
      } catch (error) {
        this.end((error as Error).message);
        return;
      }
    }
  }

  send(message: Omit<Message, 'v'>): void {
    if (!this.#ended) this.socket.write(`${JSON.stringify({ v: VERSION, ...message })}\n`);
  }

  end(reason: string, code?: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.socket.destroy();
    this.onEnd(reason, code);
  }

  /** Sends what is left, then closes. */
  finish(message: Omit<Message, 'v'>, reason: string): void {
    this.send(message);
    this.#ended = true;
    this.socket.end(() => this.socket.destroy());
    this.onEnd(reason);
  }
}
