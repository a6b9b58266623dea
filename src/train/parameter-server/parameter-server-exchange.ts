/**
 * Parameter servers as a way to exchange gradients in the training loop: every rank is a worker, and the first `servers` ranks run a server beside it.
 *
 * A shard is pushed as soon as the buckets have covered its part of the gradient, so the end of the model is under way while its beginning still computes. The
 * servers apply the optimizer; the loop gets new parameters.
 *
 * Batch norm normalises by the own batch of a rank; its running averages become the mean of all ranks' when the loop settles.
 *
 * What the modes give up, against synchronous steps: in `async` a gradient is of parameters that others have changed meanwhile, by as many updates as there are
 * other workers and more where one is slow; runs are not repeatable, and large learning rates or momentum may not converge. `ssp` bounds that age.
 */
import type { Communicator } from '../../collectives/index.js';
import type { Optimizer } from '../../nn/index.js';
import type { Bucket, ExchangeTotals, GradientExchange, MakeExchange, StepExchanged, StepStart } from '../gradient-exchange.js';
import { type ParameterClient, ShardLost } from './client.js';
import { ParameterServerGroup, type ServerSettings, shareAmong } from './group.js';
import { stateFloats } from './server-optimizer.js';

/** How long servers wait at the end for workers that have not left, ms: after a loss some may be caught elsewhere. */
const CLOSE_MS = 10_000;

export interface ParameterServerExchangeOptions extends ServerSettings {
  /** Servers, on the first ranks; at least 1, as many as there are ranks at most. Default: one on every rank, with `backups` one. */
  readonly servers?: number;
}

/**
 * Makes exchanges over parameter servers. `optimizer` must be what the rank's own optimizer is, since servers step in its place.
 * Throws as ParameterServerGroup.join, and a RangeError for another optimizer than the loop's.
 */
export function parameterServerExchange(options: ParameterServerExchangeOptions = {}): MakeExchange {
  return async ({ communicator, world, device, parameters, gradients, ranges, optimizer: own }) => {
    const { rank, size } = communicator;
    const { optimizer = { kind: 'sgd' }, ...settings } = options;
    const servers = Math.min(options.servers ?? (options.backups ? 1 : size), size);
    if (own.kind !== optimizer.kind || own.state.length !== stateFloats(optimizer, parameters.length)) {
      const theirs = `${optimizer.kind} with ${stateFloats(optimizer, parameters.length)} floats of state`;
      throw new RangeError(
        `the servers would apply ${theirs}, the loop has ${own.kind} with ${own.state.length}: give parameterServerExchange the same optimizer`,
      );
    }
    const group = await ParameterServerGroup.join({
      ...settings,
      ...(options.backups ? { backups: Math.min(options.backups, size - 1) } : {}),
      optimizer,
      rank,
      size,
      world,
      share: shareAmong(communicator),
      servers: Array.from({ length: servers }, (_, r) => r),
      workers: Array.from({ length: size }, (_, r) => r),
      device,
      parameters,
      gradients,
      ranges,
      initial: own,
    });
    return new ParameterServerExchange(group, communicator, own);
  };
}

class ParameterServerExchange implements GradientExchange {
  readonly name: string;
  readonly weighting = 'own';
  readonly #group: ParameterServerGroup;
  readonly #client: ParameterClient;
  readonly #communicator: Communicator;
  readonly #optimizer: Optimizer;
  /** The servers have moments that the rank's own optimizer has not. */
  #unsettled = false;

  constructor(group: ParameterServerGroup, communicator: Communicator, optimizer: Optimizer) {
    this.#group = group;
    this.#client = group.client as ParameterClient;
    this.#communicator = communicator;
    this.#optimizer = optimizer;
    const { mode, backups } = group.plan;
    this.name = mode !== 'sync' ? mode : backups === 0 ? 'ps' : `ps, ${backups} of ${communicator.size} may be late`;
  }

  start({ ownSamples, learningRate }: StepStart): void {
    this.#client.start(ownSamples, learningRate);
  }

  begin({ from }: Bucket): void {
    this.#client.pushFrom(from);
  }

  async finish(): Promise<StepExchanged> {
    this.#unsettled = true;
    const before = this.#client.step;
    const samples = await this.#orOwnFailure(this.#client.finish());
    const { step, late } = this.#client;
    return { updated: 'parameters', samples: this.#group.plan.mode === 'sync' ? samples : undefined, steps: step - before, late };
  }

  /** Between two barriers nobody pushes, so all ranks read the same; moments and steps come along, for checkpoints. */
  async settle(): Promise<void> {
    await this.#communicator.barrier();
    await this.#orOwnFailure(this.#client.pull());
    await this.#orOwnFailure(this.#client.pullState(this.#optimizer));
    this.#unsettled = false;
    await this.#communicator.barrier();
  }

  totals(): ExchangeTotals {
    const { pullMs, waitMs, pulledBytes } = this.#client.counters();
    return { transferMs: pullMs, waitMs, bytes: 2 * pulledBytes };
  }

  /** @throws ShardLost when moments are lost: then the run cannot go on from here. */
  async close(): Promise<void> {
    let lost: unknown;
    // After a loss the next exchange begins with the moments that the servers have.
    if (this.#unsettled && this.#optimizer.state.length > 0) {
      this.#unsettled = false;
      await this.#client.pullState(this.#optimizer).catch((error: unknown) => {
        lost = error;
      });
    }
    await this.#group.close(CLOSE_MS);
    if (lost instanceof ShardLost) throw lost;
  }

  async #orOwnFailure<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      const { serverFailure } = this.#group;
      if (serverFailure !== undefined) throw new Error(`this rank's parameter server failed: ${serverFailure.message}`);
      throw error;
    }
  }
}
