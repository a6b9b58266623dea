import assert from 'node:assert/strict';
import { test } from 'node:test';
import { simulatePipeline } from '../../schedule/pipeline.js';
import { roofline } from '../cost/roofline.js';
import { parseTopology } from '../topology/registry.js';
import { a800Study } from './a800-study.js';
import { deviceNamed, parseCluster } from './cluster.js';
import { activationBytes, stateBytes } from './memory.js';
import { parameters, parseModel, stepFlops } from './model.js';
import { pipelineCost, pipelineNames } from './pipeline-cost.js';
import { costPlan, tensorExchange } from './plan.js';
import { simulatePlanTraffic } from './plan-traffic.js';
import { searchPlans } from './search.js';

const gpt3 = parseModel('gpt3-175b');

test('GPT-3 has 175 billion parameters, and a step takes about 6 x parameters x tokens operations', () => {
  assert.equal(Math.round(parameters(gpt3) / 1e9), 175);
  const short = 6 * parameters(gpt3) * gpt3.batch * gpt3.sequence;
  assert.ok(Math.abs(stepFlops(gpt3) / short - 1) < 0.03);
});

test('ZeRO bytes for 7.5 billion parameters on 64 ranks: 120, 31.4, 16.6, 1.9 GB (published)', () => {
  const gigabytes = ([0, 1, 2, 3] as const).map((stage) => (stateBytes(7.5e9, stage, 64) / 1e9).toFixed(stage === 0 ? 0 : 1));
  assert.deepEqual(gigabytes, ['120', '31.4', '16.6', '1.9']);
});

test('activations: without parallelism s b h (34 + 5 a s / h), with everything split a t-th of it', () => {
  const { sequence: s, hidden: h, heads: a } = gpt3;
  assert.equal(
    activationBytes(gpt3, { sequences: 1, tensor: 1, recompute: 'none', sequenceParallel: false }),
    s * h * (34 + (5 * a * s) / h),
  );
  assert.equal(
    activationBytes(gpt3, { sequences: 1, tensor: 8, recompute: 'selective', sequenceParallel: true }),
    (s * h * 34) / 8,
  );
});

test("bubbles: 1F1B does not shrink GPipe's, interleaving does and keeps more in flight", () => {
  const gpipe = pipelineCost('gpipe', 4, 8);
  const one = pipelineCost('1f1b', 4, 8);
  const inter = pipelineCost('interleaved', 4, 8, 2);
  assert.equal(gpipe.bubbleOverIdeal, 3 / 8);
  assert.equal(one.bubbleOverIdeal, gpipe.bubbleOverIdeal);
  assert.equal(one.bubbleOverTotal, 3 / 11);
  assert.deepEqual([gpipe.inFlight, one.inFlight, inter.inFlight], [8, 4, 5.5]);
  assert.equal(inter.bubbleOverIdeal, 3 / 16);
  assert.equal(pipelineCost('zb-h1', 4, 8).bubbleOverIdeal, gpipe.bubbleOverIdeal / 3);
});

test('the closed forms of all pipeline schedules equal their exact simulation', () => {
  const times = { forward: 1, backwardInput: 1, backwardWeight: 1 };
  for (const name of pipelineNames) {
    for (const stages of [1, 2, 4, 8]) {
      for (const microbatches of [stages, 2 * stages, 4 * stages]) {
        const parts = name === 'interleaved' ? 2 : 1;
        const exact = simulatePipeline(name, { stages, microbatches, parts }, times);
        const closed = pipelineCost(name, stages, microbatches, parts);
        const what = `${name} p=${stages} m=${microbatches}`;
        assert.ok(
          Math.abs(exact.total / exact.ideal - 1 - closed.bubbleOverIdeal) < 1e-9,
          `${what}: ${exact.total / exact.ideal - 1}, ${closed.bubbleOverIdeal}`,
        );
        assert.ok(Math.abs(1 - exact.ideal / exact.total - closed.bubbleOverTotal) < 1e-9, what);
        assert.ok(
          Math.abs(exact.inFlight[0] - closed.inFlight) < 1e-9,
          `${what}: in flight ${exact.inFlight[0]}, ${closed.inFlight}`,
        );
      }
    }
  }
});

test("Megatron's split moves 8 b s h (t-1)/t elements a layer; the column split 23", () => {
  const cluster = { ...parseCluster('dgx-a100:8'), linkEfficiency: 1, linkLatencySeconds: 0 };
  const base = { tensor: 8, microBatch: 1, recompute: 'selective' } as const;
  const elements = (split: 'megatron' | 'column') =>
    (tensorExchange(gpt3, cluster, { ...base, split }) * 300e9) / 2 / (gpt3.sequence * gpt3.hidden) / (7 / 8);
  assert.equal(elements('megatron').toFixed(6), '8.000000');
  assert.equal(elements('column').toFixed(6), '23.000000');
});

test('the search finds a plan for GPT-3 on 1,024 A100s that keeps tensor parallelism inside the host, and every loser has a reason', () => {
  const { best, ranked, considered } = searchPlans(gpt3, parseCluster('dgx-a100:1024'));
  assert.ok(best.fits && best.choice.tensor <= 8);
  assert.ok(best.utilisation > 0.35 && best.utilisation < 0.5, String(best.utilisation));
  assert.ok(considered > 100);
  for (const { cost, reason } of ranked.slice(1)) {
    assert.match(reason, cost.fits ? /% slower: / : /needs \d+ GB of 80 GB/);
    const { total, ...parts } = cost.seconds;
    assert.ok(Math.abs(Object.values(parts).reduce((sum, part) => sum + part, 0) - total) < 1e-9 * total);
  }
});

test('impossible plans are refused with the reason and the nearest legal value', () => {
  const cluster = parseCluster('dgx-a100:64');
  const refuse = (choice: Partial<Parameters<typeof costPlan>[2]>, pattern: RegExp) => {
    assert.throws(() => costPlan(gpt3, cluster, { data: 1, tensor: 8, pipeline: 8, microBatch: 1, ...choice }), pattern);
  };
  refuse({ tensor: 128 }, /above the 96 heads.*tensor=96/);
  refuse({ tensor: 7 }, /tensor=[68]/);
  refuse({ pipeline: 7 }, /96 layers.*pipeline=[68]/);
  refuse({ data: 2 }, /= 128, and the cluster has 64 devices.*data=1/);
  refuse({ microBatch: 1000 }, /batch of 1536.*batch=2000/);
  assert.throws(() => searchPlans(gpt3, parseCluster('dgx-a100:8')), /does not fit.*GB of 80 GB.*devices/);
  assert.throws(() => parseCluster('dgx-a100:12'), /do not fill hosts.*nearest legal value: (8|16)/);
  assert.throws(() => parseCluster('dgx-z9:8'), /there are dgx-v100/);
  assert.throws(() => parseModel('gpt9'), /there are gpt2/);
});

test('A100 to A800: 350 GB/s needed nominally, both bind; 280 measured, only the A800 binds', () => {
  const study = a800Study();
  const [nominal, measured] = study.cases;
  assert.deepEqual([nominal.neededBytesPerSecond, measured.neededBytesPerSecond], [350e9, 280e9]);
  assert.deepEqual(
    nominal.devices.map((d) => d.binds),
    [true, true],
  );
  assert.deepEqual(
    measured.devices.map((d) => d.binds),
    [false, true],
  );
  assert.deepEqual(
    measured.devices.map((d) => d.ratio),
    [1.875, 1.25],
  );
  assert.equal(study.perNicBytesPerSecond, 43.75e9);
});

test('A100 to A800: a GPT-3 layer takes 6.70 and 6.99 ms, 4.4 % slower; 5.4 % at 80 % link efficiency', () => {
  const { layer } = a800Study();
  assert.equal((layer.exchangedBytes / 1e6).toFixed(1), '50.3');
  assert.equal((layer.wireBytes / 1e6).toFixed(0), '176');
  assert.equal((layer.computeSeconds * 1e3).toFixed(2), '6.11');
  assert.deepEqual(
    layer.devices.map((d) => (d.exchangeSeconds * 1e3).toFixed(2)),
    ['0.59', '0.88'],
  );
  assert.deepEqual(
    layer.devices.map((d) => (d.totalSeconds * 1e3).toFixed(2)),
    ['6.70', '6.99'],
  );
  assert.equal((layer.slowdown * 100).toFixed(1), '4.4');
  assert.equal((a800Study({ linkEfficiency: 0.8 }).layer.slowdown * 100).toFixed(1), '5.4');
});

test('roofline: below the ridge memory binds, above computing, and a slow wire binds both', () => {
  const device = deviceNamed('a100');
  assert.equal(roofline({ device, flops: 1e12, memoryBytes: 1e11 }).bound, 'memory');
  assert.equal(roofline({ device, flops: 1e15, memoryBytes: 1e9 }).bound, 'compute');
  assert.equal(roofline({ device, flops: 1e12, memoryBytes: 1e9, wireBytes: 1e9 }).bound, 'wire');
  assert.equal(roofline({ device, flops: 1e12, memoryBytes: 1e11 }).attainableFlops, 10 * device.memoryBytesPerSecond);
});

test("a plan's traffic on a topology: tensor groups stay inside hosts, and gradients of all groups contend on a blocking tree but not on a full one", () => {
  const cluster = parseCluster('dgx-a100:256');
  const cost = costPlan(gpt3, cluster, { data: 4, tensor: 8, pipeline: 8, microBatch: 1, recompute: 'full' });
  const parts = (text: string) => {
    const { topology, parameters: sizes } = parseTopology(text);
    return new Map(simulatePlanTraffic(gpt3, cluster, cost, topology.build(sizes)).map((part) => [part.name, part]));
  };
  const full = parts('leaf-spine:radix=16,leaves=4');
  const tapered = parts('leaf-spine:radix=16,leaves=4,down=8,up=2');
  assert.deepEqual([...full.keys()], ['tensor', 'boundary', 'data']);
  const ratio = (map: typeof full, name: 'tensor' | 'data') => {
    const part = map.get(name);
    assert.ok(part !== undefined);
    return part.simulatedSeconds / part.assumedSeconds;
  };
  assert.ok(Math.abs(ratio(full, 'tensor') - ratio(tapered, 'tensor')) < 1e-9, 'tensor groups stay inside their hosts');
  assert.ok(Math.abs(ratio(full, 'data') - 1) < 0.05, `as assumed on a full network: ${ratio(full, 'data')}`);
  assert.ok(ratio(tapered, 'data') > 2, `four times fewer uplinks: ${ratio(tapered, 'data')}`);
  assert.throws(() => parts('leaf-spine:radix=8,leaves=2'), /8 endpoints and the cluster 32 hosts/);
});
