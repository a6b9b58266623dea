/**
 * A rank of a group of parameter servers and workers. The loss is a bowl of its own at every worker, so every gradient depends on the parameters pulled before:
 * an update that is lost, repeated or of old parameters shows in the result.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ParameterServerGroup, shareOver } from '../../../src/train/parameter-server/group.js';
import { openDevice } from '../../../src/verbs/open-device.js';
import { asRank, say } from '../../collectives/rank.js';
import { bowl, initial, type Job, RATE, rangesOf, weightOf } from './bowl.js';

asRank(async ({ rank, size, exchange }) => {
  const job = JSON.parse(process.env['JOB'] as string) as Job;
  const { floats, steps, servers, workers, slow = [] } = job;
  const device = await openDevice('shm');
  const memory = () => new Float32Array(device.alloc(4 * floats), 0, floats);
  const [parameters, gradients] = [memory(), memory()];
  const worker = workers.indexOf(rank);
  if (worker === 0) parameters.set(initial(floats));
  const group = await ParameterServerGroup.join({
    ...job.settings,
    rank,
    size,
    share: shareOver(exchange, rank, size),
    servers,
    workers,
    device,
    parameters,
    gradients,
    ranges: rangesOf(floats),
  });
  const { client } = group;
  let tooFar = false;
  if (client !== undefined) {
    say({ joined: true });
    for (let step = 0; step < steps; step = client.step) {
      client.start(weightOf(worker), RATE);
      if (job.constant) gradients.fill(worker + 1);
      else bowl(parameters, gradients, worker, step);
      client.pushFrom(Math.floor(floats / 2)); // as backward would: the end of the gradient is final first
      if (slow.includes(worker)) await sleep(5);
      await client.finish();
      if (job.tellSteps) say({ step: client.step, taken: client.late ? undefined : step });
      if (job.gate === undefined) continue;
      await exchange.set(`${worker} has done/${step + 1}`, '1');
      if (worker === 1 && step === 0) {
        // Worker 0 gets as far ahead as it may, and no further for as long as this one looks on.
        await exchange.wait(`0 has done/${1 + job.gate}`, { timeoutMs: 200_000 });
        await sleep(100);
        tooFar = (await exchange.get(`0 has done/${2 + job.gate}`)) !== undefined;
      }
    }
    await exchange.set(`done/${worker}`, '1');
    for (let w = 0; w < workers.length; w++) {
      if (!(job.dying ?? []).includes(workers[w])) await exchange.wait(`done/${w}`, { timeoutMs: 200_000 });
    }
    await client.pull();
    say({ parameters: [...parameters], client: client.counters(), tooFar });
  }
  const counters = await group.close();
  say({ server: counters ?? null });
  device.close();
});
