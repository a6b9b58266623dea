/**
 * The endpoint of a queue pair through its states: made at RTR (a DC initiator at RTS), drained in SQD, gone at RESET. Who flushes into ERR, and
 * drives it in between, is the provider's.
 */

import type { QpType } from '../opcode.js';
import type { QpAttributes, QpState } from '../qp-state.js';
import { DcInitiator } from './dc-initiator.js';
import { type ContextNumbers, DcTarget } from './dc-target.js';
import type { EndpointParts } from './endpoint-parts.js';
import type { TransportEndpoint } from './host.js';
import { RcEndpoint } from './rc-endpoint.js';
import type { RcSettings } from './rc-settings.js';
import { UcEndpoint } from './uc-endpoint.js';
import { UdEndpoint } from './ud-endpoint.js';

/** An endpoint that sends: all but the DC target. */
interface Sender extends TransportEndpoint {
  drain(): void;
  resume(): void;
}

export interface ControlledParts extends EndpointParts {
  readonly type: QpType;
  readonly qpNum: number;
  /** Bytes of a packet at most; a path MTU may be less. */
  readonly mtu: number;
  /** Packets outstanding at most. Default: that of RcSettings. */
  readonly window?: number;
  /** Key that initiators of a DC target must name. */
  readonly dcKey: number;
  readonly numbers: ContextNumbers;
  /** Where the tokens of a new DC initiator start. */
  newToken(): number;
}

export class EndpointControl {
  endpoint: TransportEndpoint | undefined;
  /** The settings that the endpoint looks at. */
  settings: RcSettings | undefined;
  private readonly parts: ControlledParts;

  constructor(parts: ControlledParts) {
    this.parts = parts;
  }

  /** Follows a transition; `attributes` are all that are set then. Returns the endpoint that there is now. */
  move(from: QpState, to: QpState, attributes: QpAttributes): TransportEndpoint | undefined {
    if (to === 'RESET') this.reset();
    else if (to === 'RTR') this.make(attributes);
    else if (to === 'RTS') this.makeReady(from, attributes);
    else if (to === 'SQD' && from !== 'SQD') (this.endpoint as Sender).drain();
    if (this.settings) {
      const { destQp, sendPsn, receivePsn } = this.settings;
      Object.assign(this.settings, this.settingsOf(attributes), { destQp, sendPsn, receivePsn });
    }
    return this.endpoint;
  }

  /** Ends the endpoint without completions. */
  end(): void {
    if (this.endpoint instanceof DcTarget) this.endpoint.flush();
    this.endpoint = undefined;
  }

  private reset(): void {
    this.end();
    this.settings = undefined;
    this.parts.sendQueue.clear();
    if (!this.parts.isShared) this.parts.receiveQueue.clear();
  }

  /** The endpoint that these attributes describe. */
  make(attributes: QpAttributes): TransportEndpoint | undefined {
    const { parts } = this;
    const { type, qpNum, mtu } = parts;
    const settings = this.settingsOf(attributes);
    this.settings = settings;
    if (type === 'RC') this.endpoint = new RcEndpoint(parts, settings);
    else if (type === 'UC') this.endpoint = new UcEndpoint(parts, settings);
    else if (type === 'UD') this.endpoint = new UdEndpoint(parts, { qpNum, mtu, sendPsn: 0, queueKey: attributes.qkey ?? 0 });
    else if (type === 'DCT') this.endpoint = new DcTarget(parts, settings);
    return this.endpoint;
  }

  private makeReady(from: QpState, attributes: QpAttributes): void {
    const { endpoint, parts } = this;
    if (from === 'SQD' || from === 'SQE') {
      (endpoint as Sender).resume();
    } else if (from === 'RTR') {
      if (endpoint instanceof RcEndpoint || endpoint instanceof UcEndpoint || endpoint instanceof UdEndpoint) {
        endpoint.startAt(attributes.sqPsn ?? 0);
      } else if (parts.type === 'DCI') {
        this.settings = this.settingsOf(attributes);
        this.endpoint = new DcInitiator({ ...parts, firstToken: parts.newToken() }, this.settings);
      }
    }
  }

  /** What the transport needs of the attributes. */
  private settingsOf(a: QpAttributes): RcSettings {
    const settings: RcSettings = {
      destQp: a.destQpNum ?? 0,
      mtu: a.pathMtu ?? this.parts.mtu,
      sendPsn: a.sqPsn ?? 0,
      receivePsn: a.rqPsn ?? 0,
      timeout: a.timeout ?? 14,
      retryCount: a.retryCnt ?? 7,
      rnrRetry: a.rnrRetry ?? 7,
      minRnrTimer: a.minRnrTimer ?? 1,
      maxRdAtomic: a.maxRdAtomic ?? 16,
      maxDestRdAtomic: a.maxDestRdAtomic ?? 16,
      access: a.accessFlags ?? 0,
    };
    if (this.parts.window !== undefined) settings.window = this.parts.window;
    return settings;
  }
}
