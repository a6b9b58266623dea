import assert from 'node:assert/strict';
import { pipeline } from 'node:stream/promises';
import { assertBytes, type Chapter, pattern } from './stage.js';

export const streams: Chapter = {
  name: 'stream',
  cases: {
    'bytes arrive in order, whatever the pieces, and the end is told': async (stage) => {
      const { out, back } = await stage.pair();
      const sizes = [1, 40, 41, 1000, 70_000, 300_000, 0, 5];
      const whole = Buffer.concat(sizes.map((size, i) => pattern(size, i)));
      const writing = (async () => {
        for (const [i, size] of sizes.entries()) await out.stream.write(pattern(size, i));
        await out.stream.end();
      })();
      const parts: Buffer[] = [];
      const into = Buffer.alloc(777);
      for (;;) {
        const count = await back.stream.read(into);
        if (count === 0) break;
        parts.push(Buffer.from(into.subarray(0, count)));
      }
      await writing;
      assertBytes(Buffer.concat(parts), whole);
      await assert.rejects(out.stream.write(into), { code: 'MSG_CLOSED' });
    },

    'a reader that does not read holds the writer back at the window': async (stage) => {
      const { near, far, out, back } = await stage.pair({ streamWindowBytes: 8192 });
      let written = 0;
      const writing = (async () => {
        for (let i = 0; i < 100; i++) {
          await out.stream.write(pattern(1000, i));
          written += 1000;
        }
      })();
      for (let i = 0; i < 200; i++) {
        near.poll();
        far.poll();
        await new Promise((resolve) => setImmediate(resolve));
      }
      assert.ok(written <= 8192, `${written} bytes were taken`);
      assert.ok(back.stream.readable <= 8192);
      const into = new Uint8Array(100_000);
      for (let got = 0; got < 100_000; ) got += await back.stream.read(into.subarray(got));
      await writing;
      assertBytes(into.subarray(99_000), pattern(1000, 99));
    },

    'a Duplex on each side carries a pipeline both ways': async (stage) => {
      const { out, back } = await stage.pair();
      const near = out.stream.toDuplex();
      const far = back.stream.toDuplex();
      const echoing = pipeline(far, far);
      const data = Buffer.from(pattern(1_000_000));
      const parts: Buffer[] = [];
      near.end(data);
      for await (const chunk of near) parts.push(chunk as Buffer);
      await echoing;
      assertBytes(Buffer.concat(parts), data);
    },
  },
};
