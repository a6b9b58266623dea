/**
 * Where the microseconds of an RDMA operation go: a budget of ranges, summed over the steps an operation really takes.
 *
 * Ranges are what machines of today show: a doorbell over PCIe 200-800 ns, DMA up to about a microsecond (a read waits for its answer, a posted write
 * does not), a rack's network well under a microsecond, memory 100-400 ns. A WRITE that is acknowledged and polled takes 2-5 us altogether.
 */

export interface BudgetStep {
  readonly name: string;
  readonly lowNs: number;
  readonly highNs: number;
}

export interface LatencyOptions {
  /** `write`, `read`: one-sided. `send`: two-sided, with the target's CPU. Default write. */
  readonly operation?: 'write' | 'read' | 'send';
  /** The payload travels in the work request; no DMA read of it. Default false. */
  readonly inline?: boolean;
  /** The region table is cached in the NIC; otherwise one more DMA read. Default true. */
  readonly tableCached?: boolean;
}

export interface LatencyBudget {
  readonly steps: readonly BudgetStep[];
  readonly lowNs: number;
  readonly highNs: number;
}

const doorbell: BudgetStep = { name: 'doorbell (MMIO write over PCIe)', lowNs: 200, highNs: 800 };
const fetch: BudgetStep = { name: 'NIC fetches request and payload (DMA read)', lowNs: 800, highNs: 1000 };
const there: BudgetStep = { name: 'network, there (one rack)', lowNs: 100, highNs: 350 };
const table: BudgetStep = { name: 'region table in host memory (DMA read)', lowNs: 800, highNs: 1000 };
const place: BudgetStep = { name: 'target NIC writes the payload (DMA write, posted)', lowNs: 400, highNs: 1000 };
const pull: BudgetStep = { name: 'target NIC reads the payload (DMA read)', lowNs: 800, highNs: 1000 };
const back: BudgetStep = { name: 'network, back (acknowledgement)', lowNs: 100, highNs: 350 };
const completion: BudgetStep = { name: 'completion written to memory (DMA write, posted)', lowNs: 300, highNs: 1000 };
const poll: BudgetStep = { name: 'CPU finds the completion (memory)', lowNs: 100, highNs: 400 };
const handler: BudgetStep = { name: "target's CPU polls, matches and reposts", lowNs: 500, highNs: 900 };

export function latencyBudget(options: LatencyOptions = {}): LatencyBudget {
  const operation = options.operation ?? 'write';
  const steps: BudgetStep[] = [doorbell];
  if (operation !== 'read' && !options.inline) steps.push(fetch);
  steps.push(there);
  if (options.tableCached === false) steps.push(table);
  steps.push(operation === 'read' ? pull : place);
  if (operation === 'send') steps.push(handler);
  steps.push(
    back,
    ...(operation === 'read' ? [{ ...place, name: 'initiator NIC writes the payload (DMA write, posted)' }] : []),
    completion,
    poll,
  );
  return {
    steps,
    lowNs: steps.reduce((sum, step) => sum + step.lowNs, 0),
    highNs: steps.reduce((sum, step) => sum + step.highNs, 0),
  };
}
