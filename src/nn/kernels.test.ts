import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { addressOf, Block, KERNEL, run, selectBlas } from './kernels.js';
import { Random } from './random.js';

test('the kernels are numbered as the C side numbers them', () => {
  const header = readFileSync(new URL('../../../native/kernel-table.h', import.meta.url), 'utf8');
  const names = [...header.matchAll(/^ {2}KERNEL_(\w+),$/gm)].map(([, name]) => name);
  const camel = (name: string) => name.toLowerCase().replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
  assert.deepEqual(
    Object.entries(KERNEL),
    names.map((name, i) => [camel(name), i]),
  );
});

for (const blas of ['own', 'auto'] as const) {
  test(`the matrix product is right (${blas})`, () => {
    const { implementation } = selectBlas(blas);
    if (blas === 'own') assert.equal(implementation, 'own');
    const random = new Random(2);
    const [m, n, k] = [19, 53, 31];
    const matrix = (size: number) => Float32Array.from({ length: size }, () => random.normal());
    const [a, b, c] = [new Block(matrix(m * k)), new Block(matrix(k * n)), Block.zeros(m * n)];
    run(KERNEL.sgemm, 0, 0, m, n, k, 2, a.address, k, b.address, n, 0, c.address, n);
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        let sum = 0;
        for (let p = 0; p < k; p++) sum += a.data[i * k + p] * b.data[p * n + j];
        assert.ok(Math.abs(c.data[i * n + j] - 2 * sum) < 1e-4);
      }
    }
    selectBlas('auto');
  });
}

test('an unknown BLAS is refused', () => {
  assert.throws(() => selectBlas('mkl' as 'own'), /unknown BLAS 'mkl': give auto, own or library/);
});

test('a wrong VERBENA_BLAS is an error at every call', () => {
  const program = `import { globalNorm } from ${JSON.stringify(new URL('./clipping.js', import.meta.url).href)};
    for (let i = 0; i < 2; i++) try { globalNorm(new Float32Array(1)); } catch (error) { console.log(error.message); }`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    env: { ...process.env, VERBENA_BLAS: 'fast' },
    encoding: 'utf8',
  });
  assert.equal(stdout, "unknown BLAS 'fast': give auto, own or library\n".repeat(2));
});

test('the address of a view is that of its first element', () => {
  const buffer = new Float32Array(8);
  assert.equal(addressOf(buffer.subarray(3)) - addressOf(buffer), 12);
});
