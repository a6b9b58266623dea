/** Steps of a program in the guest: each prints PASS or FAIL and its name, which the test on the host reads. */

export class Steps {
  failures = 0;

  /** Runs one step; what it throws is its failure, and the next step is run all the same. */
  async play(name: string, act: () => Promise<unknown>): Promise<void> {
    const start = performance.now();
    try {
      await act();
      console.log(`PASS ${name} ${Math.round(performance.now() - start)} ms`);
    } catch (error) {
      this.failures++;
      console.log(`FAIL ${name} ${String((error as Error).stack).replaceAll('\n', ' | ')}`);
    }
  }
}
