/** What is asked of the type stripper, and what it answers. */

/** Names the launcher's stripper to its ranks: an abstract socket, without the leading zero byte. */
export const SERVICE_VARIABLE = 'VERBENA_TYPESCRIPT_SERVICE';

export interface StripQuestion {
  readonly source: string;
  readonly isModule: boolean;
}

/** What swc throws: a plain object, not an Error. */
interface StripError {
  readonly message: string;
  readonly snippet?: string;
  readonly startLine?: number;
  readonly startColumn?: number;
}

export type StripAnswer = { readonly code: string } | { readonly error: StripError };
