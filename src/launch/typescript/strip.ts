/** The type stripper itself: swc's, which Node embeds as well. Importing this file takes 20 MB and a tenth of a second. */

import { transformSync } from '@swc/wasm-typescript';
import type { StripAnswer } from './answer.js';

/** Types become blanks, so that lines and columns stay true. */
export function stripTypes(source: string, isModule: boolean): StripAnswer {
  try {
    return { code: transformSync(source, { mode: 'strip-only', module: isModule }).code };
  } catch (thrown) {
    const { message, snippet, startLine, startColumn } = thrown as {
      message: string;
      snippet?: string;
      startLine?: number;
      startColumn?: number;
    };
    return { error: { message, snippet, startLine, startColumn } };
  }
}
