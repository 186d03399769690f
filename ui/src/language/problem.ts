// A mistake in a text, with its position.

export interface Mistake {
  message: string;
  /** In characters; `to` is exclusive. */
  from: number;
  to: number;
}

/** The position in a server's error text: a character that it names, or a word of the text that it quotes. */
export function mistakeOf(message: string, text: string): Mistake {
  const at = /\(at char (\d+)\)/.exec(message);
  const shown = message.replace(/\s*\(at char \d+\)(, \(line:\d+, col:\d+\))?/, "");
  if (at) {
    const from = Math.min(Number(at[1]), Math.max(text.length - 1, 0));
    return { message: shown, from, to: wordEnd(text, from) };
  }
  for (const [, quoted] of message.matchAll(/['"`]([^'"`]+)['"`]/g)) {
    const found = quoted ? wordAt(text, quoted) : -1;
    if (found >= 0) return { message: shown, from: found, to: found + (quoted as string).length };
  }
  for (const [word] of message.matchAll(/[\w.-]{3,}/g)) {
    const found = wordAt(text, word);
    if (found >= 0 && !COMMON.has(word.toLowerCase())) return { message: shown, from: found, to: found + word.length };
  }
  return { message: shown, from: 0, to: text.length };
}

/** Common words of error texts, which are no quotes. */
const COMMON = new Set(["metric", "the", "has", "not", "and", "for", "operation", "operations", "resource", "type", "attribute", "mean"]);

function wordAt(text: string, word: string): number {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    if (!/[\w.-]/.test(text[at - 1] ?? " ") && !/[\w.-]/.test(text[at + word.length] ?? " ")) return at;
  }
  return -1;
}

function wordEnd(text: string, from: number): number {
  const rest = /^[\w.-]+/.exec(text.slice(from));
  return from + Math.max(rest?.[0].length ?? 1, 1);
}
