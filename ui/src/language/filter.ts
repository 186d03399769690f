// The filter language, as far as completion and error marking need it.

import type { Mistake } from "./problem";
import * as tokens from "./tokens";

export const OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "like", "in"];
const JOINERS = ["and", "or", "not"];
const WORDS = new Set([...OPERATORS, ...JOINERS, "eq", "ne", "lt", "le", "gt", "ge", "==", "≠", "≤", "≥", "∧", "∨", "∈", "null", "true", "false"]);

const PATTERN = /\s+|"[^"]*"?|'[^']*'?|[<>!=≠≤≥∧∨∈]+|-?\d+(?:\.\d+)?(?![\w-])|[\w.:-]+|./gu;

/** A value between quotation marks. Those that the language cannot express, whose only escapes are of white space, have none. */
export function quoted(value: string): string | undefined {
  const quote = ["'", '"'].find((mark) => !value.includes(mark));
  return quote && !/\\[tnfr]|[\n\r]/.test(value) ? `${quote}${value}${quote}` : undefined;
}

type Token = tokens.Token<"word" | "text" | "number" | "operator" | "sign">;

export const tokensOf = (text: string): Token[] => tokens.tokensOf(text, PATTERN, kindOf);

function kindOf(word: string): Token["kind"] {
  if (/^["']/.test(word)) return "text";
  if (WORDS.has(word.toLowerCase())) return "operator";
  if (/^-?\d+(\.\d+)?$/.test(word)) return "number";
  return /^[\w.:-]+$/.test(word) ? "word" : "sign";
}

const isComparison = (token: Token | undefined): boolean => token?.kind === "operator" && !JOINERS.includes(token.text.toLowerCase()) && !["null", "true", "false"].includes(token.text.toLowerCase());

/** Checks that words before comparisons are attributes, and that brackets and quotes match. */
export function check(text: string, attributes: string[]): Mistake[] {
  const found = tokensOf(text);
  return tokens.check(found, [["(", "["], [")", "]"]], (token, at) => {
    const isUnknown = token.kind === "word" && isComparison(found[at + 1]) && attributes.length && !attributes.includes(token.text);
    return isUnknown ? `The type has no attribute “${token.text}”` : undefined;
  });
}

export interface Wanted {
  kind: "attribute" | "operator" | "value" | "joiner";
  word: string;
  from: number;
  /** The attribute that the value is compared with. */
  attribute?: string;
}

export function wantedAt(text: string, place: number): Wanted {
  const isWord = ({ kind, text }: Token) => kind === "word" || kind === "text" || /^\w+$/.test(text);
  const { word, from, before } = tokens.typedAt(tokensOf(text.slice(0, place)), place, isWord);
  const opener = before[before.length - 1];
  if (!opener || opener.text === "(" || JOINERS.includes(opener.text.toLowerCase())) return { kind: "attribute", word, from };
  if (isComparison(opener)) return { kind: "value", word, from, attribute: before[before.length - 2]?.text ?? "" };
  const isValue = isComparison(before[before.length - 2]);
  return { kind: isValue || opener.text === ")" ? "joiner" : "operator", word, from };
}

export const joiners = ["and", "or"];
