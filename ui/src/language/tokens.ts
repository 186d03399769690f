// Texts in tokens, and what is wrong with them in any language.

import type { Mistake } from "./problem";

export interface Token<Kind extends string> {
  kind: Kind;
  text: string;
  from: number;
  to: number;
}

/** The matches of a pattern without white space. */
export function tokensOf<Kind extends string>(text: string, pattern: RegExp, kindOf: (word: string) => Kind): Token<Kind>[] {
  return [...text.matchAll(pattern)]
    .filter(([word]) => !/^\s/.test(word))
    .map(({ 0: word, index }) => ({ kind: kindOf(word), text: word, from: index, to: index + word.length }));
}

/** Brackets and quotation marks without their other half, and tokens in which `messageOf` finds a mistake. */
export function check<Kind extends string>(
  tokens: Token<Kind | "text">[], [opening, closing]: [string[], string[]], messageOf: (token: Token<Kind | "text">, at: number) => string | undefined,
): Mistake[] {
  const mistakes: Mistake[] = [];
  const open: Token<Kind | "text">[] = [];
  const add = (message: string | undefined, { from, to }: Token<Kind | "text">) => message && mistakes.push({ message, from, to });
  tokens.forEach((token, at) => {
    if (opening.includes(token.text)) open.push(token);
    if (closing.includes(token.text) && !open.pop()) add("Nothing is open here", token);
    if (token.kind === "text" && (token.text.length < 2 || !token.text.endsWith(token.text[0] as string))) add("The quotation mark is not closed", token);
    add(messageOf(token, at), token);
  });
  for (const token of open) add("This is not closed", token);
  return mistakes;
}

/** The word that is typed at the end of some tokens, where it begins, and the tokens before it. */
export function typedAt<Kind extends string>(tokens: Token<Kind>[], place: number, isWord: (token: Token<Kind>) => boolean) {
  const last = tokens[tokens.length - 1];
  if (last === undefined || last.to !== place || !isWord(last)) return { word: "", from: place, before: tokens };
  return { word: last.text, from: last.from, before: tokens.slice(0, -1) };
}
