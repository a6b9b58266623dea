/**
 * Parameter servers as a way to exchange gradients in the training loop: every rank is a worker, and the first `servers` ranks run a server beside it.
 *
 * A shard is pushed as soon as the buckets have covered its part of the gradient, so the end of the model is under way while its beginning still computes. The
 * servers apply the optimizer; the loop gets new parameters.
 */
import { RankLost } from '../../collectives/index.js';
import { PeerLost } from '../../messaging/index.js';
import type { Bucket, ExchangeTotals, GradientExchange, MakeExchange, StepExchanged, StepStart } from '../gradient-exchange.js';
import type { ParameterClient } from './client.js';
import { ParameterServerGroup, type ServerSettings, shareAmong } from './group.js';

export interface ParameterServerExchangeOptions extends ServerSettings {
  /** Servers, on the first ranks; 1 .. ranks. Default: one on every rank. */
  readonly servers?: number;
}

/** Makes exchanges over parameter servers. Throws as ParameterServerGroup.join. */
export function parameterServerExchange(options: ParameterServerExchangeOptions = {}): MakeExchange {
  return async ({ communicator, device, parameters, gradients, ranges }) => {
    const { rank, size } = communicator;
    const { servers = size, ...settings } = options;
    const group = await ParameterServerGroup.join({
      ...settings,
      rank,
      size,
      share: shareAmong(communicator),
      servers: Array.from({ length: servers }, (_, r) => r),
      workers: Array.from({ length: size }, (_, r) => r),
      device,
      parameters,
      gradients,
      ranges,
    });
    return new ParameterServerExchange(group);
  };
}

class ParameterServerExchange implements GradientExchange {
  readonly name: string;
  readonly weighting = 'own';
  readonly #group: ParameterServerGroup;
  readonly #client: ParameterClient;

  constructor(group: ParameterServerGroup) {
    this.#group = group;
    this.#client = group.client as ParameterClient;
    this.name = group.plan.mode === 'sync' ? 'ps' : group.plan.mode;
  }

  start({ ownSamples, learningRate }: StepStart): void {
    this.#client.start(ownSamples, learningRate);
  }

  begin({ from }: Bucket): void {
    this.#client.pushFrom(from);
  }

  async finish(): Promise<StepExchanged> {
    try {
      const samples = await this.#client.finish();
      return { updated: 'parameters', samples: this.#group.plan.mode === 'sync' ? samples : undefined };
    } catch (error) {
      if (!(error instanceof PeerLost)) throw error;
      throw new RankLost(-1, `a push: ${error.message}`);
    }
  }

  totals(): ExchangeTotals {
    const { pullMs, waitMs, pulledBytes } = this.#client.counters();
    return { transferMs: pullMs, waitMs, bytes: 2 * pulledBytes };
  }

  async close(): Promise<void> {
    await this.#group.close();
  }
}
