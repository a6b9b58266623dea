/**
 * Arithmetic in GF(q) for small prime powers q, with a generator of its multiplicative group: what Slim Fly's graphs are made of.
 *
 * An element is an integer whose base-p digits are the coefficients of a polynomial over GF(p). The modulus is the first monic
 * polynomial of the right degree for which x generates all q - 1 units; for a prime q the first primitive root is taken.
 */

export interface GaloisField {
  readonly order: number;
  /** Powers of the generator: power[i] = g^i, i = 0 .. q-2. */
  readonly power: readonly number[];
  add(a: number, b: number): number;
  subtract(a: number, b: number): number;
  multiply(a: number, b: number): number;
}

/** p and m with p^m = q, or undefined when q is no prime power. */
export function primePower(q: number): { prime: number; exponent: number } | undefined {
  for (let p = 2; p * p <= q; p++) {
    if (q % p !== 0) continue;
    let exponent = 0;
    for (let rest = q; rest > 1; rest /= p, exponent++) if (rest % p !== 0) return undefined;
    return { prime: p, exponent };
  }
  return q >= 2 ? { prime: q, exponent: 1 } : undefined;
}

/** GF(q). @throws RangeError when q is no prime power. */
export function galoisField(q: number): GaloisField {
  const factors = primePower(q);
  if (factors === undefined) throw new RangeError(`${q} is not a prime power`);
  const { prime: p, exponent: m } = factors;
  const digitwise = (a: number, b: number, sign: 1 | -1): number => {
    let result = 0;
    for (let i = 0, scale = 1; i < m; i++, scale *= p) {
      const digit = (Math.floor(a / scale) % p) + sign * (Math.floor(b / scale) % p);
      result += ((digit + p) % p) * scale;
    }
    return result;
  };
  const power = m === 1 ? primitiveRootPowers(p) : primitivePolynomialPowers(p, m);
  const log = new Map(power.map((value, exponent) => [value, exponent]));
  return {
    order: q,
    power,
    add: (a, b) => digitwise(a, b, 1),
    subtract: (a, b) => digitwise(a, b, -1),
    multiply: (a, b) => (a === 0 || b === 0 ? 0 : power[((log.get(a) as number) + (log.get(b) as number)) % (q - 1)]),
  };
}

function primitiveRootPowers(p: number): number[] {
  for (let root = 1; ; root++) {
    const powers = [1];
    for (let value = root % p; value !== 1; value = (value * root) % p) powers.push(value);
    if (powers.length === p - 1) return powers;
  }
}

function primitivePolynomialPowers(p: number, m: number): number[] {
  const q = p ** m;
  for (let low = 1; low < q; low++) {
    // modulus x^m + low: multiplying by x shifts the digits up and replaces x^m by -low
    const powers = [1];
    let value = 1;
    do {
      const carry = Math.floor(value / p ** (m - 1));
      value = (value % p ** (m - 1)) * p;
      let next = 0;
      for (let i = 0, scale = 1; i < m; i++, scale *= p) {
        const digit = (Math.floor(value / scale) % p) - carry * (Math.floor(low / scale) % p);
        next += (((digit % p) + p) % p) * scale;
      }
      value = next;
      if (value !== 1) powers.push(value);
    } while (value !== 1 && value !== 0 && powers.length < q);
    if (value === 1 && powers.length === q - 1) return powers;
  }
  throw new RangeError(`no primitive polynomial of degree ${m} over GF(${p})`);
}
