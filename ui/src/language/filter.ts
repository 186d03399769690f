// The filter language, as far as completion and error marking need it.

import type { Mistake } from "./problem";

export const OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "like", "in"];
const JOINERS = ["and", "or", "not"];
const WORDS = new Set([...OPERATORS, ...JOINERS, "eq", "ne", "lt", "le", "gt", "ge", "==", "≠", "≤", "≥", "∧", "∨", "∈", "null", "true", "false"]);

export interface Token {
  kind: "word" | "text" | "number" | "operator" | "sign";
  text: string;
  from: number;
  to: number;
}

export function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  const pattern = /\s+|"[^"]*"?|'[^']*'?|[<>!=≠≤≥∧∨∈]+|-?\d+(?:\.\d+)?(?![\w-])|[\w.:-]+|./gu;
  for (const match of text.matchAll(pattern)) {
    const word = match[0];
    if (/^\s/.test(word)) continue;
    tokens.push({ kind: kindOf(word), text: word, from: match.index, to: match.index + word.length });
  }
  return tokens;
}

function kindOf(word: string): Token["kind"] {
  if (/^["']/.test(word)) return "text";
  if (WORDS.has(word.toLowerCase())) return "operator";
  if (/^-?\d+(\.\d+)?$/.test(word)) return "number";
  return /^[\w.:-]+$/.test(word) ? "word" : "sign";
}

const isComparison = (token: Token | undefined): boolean => token?.kind === "operator" && !JOINERS.includes(token.text.toLowerCase()) && !["null", "true", "false"].includes(token.text.toLowerCase());

/** Checks that words before comparisons are attributes, and that brackets and quotes match. */
export function check(text: string, attributes: string[]): Mistake[] {
  const tokens = tokensOf(text);
  const mistakes: Mistake[] = [];
  const open: Token[] = [];
  tokens.forEach((token, at) => {
    if (token.text === "(" || token.text === "[") open.push(token);
    if ((token.text === ")" || token.text === "]") && !open.pop()) mistakes.push({ message: "Nothing is open here", from: token.from, to: token.to });
    if (token.kind === "text" && (token.text.length < 2 || !token.text.endsWith(token.text[0] as string))) {
      mistakes.push({ message: "The quotation mark is not closed", from: token.from, to: token.to });
    }
    if (token.kind === "word" && isComparison(tokens[at + 1]) && attributes.length && !attributes.includes(token.text)) {
      mistakes.push({ message: `The type has no attribute “${token.text}”`, from: token.from, to: token.to });
    }
  });
  for (const token of open) mistakes.push({ message: "This is not closed", from: token.from, to: token.to });
  return mistakes;
}

export interface Wanted {
  kind: "attribute" | "operator" | "value" | "joiner";
  word: string;
  from: number;
  /** The attribute that the value is compared with. */
  attribute?: string;
}

export function wantedAt(text: string, place: number): Wanted {
  const tokens = tokensOf(text.slice(0, place));
  const last = tokens[tokens.length - 1];
  const isTyping = last !== undefined && last.to === place && (last.kind === "word" || last.kind === "text" || /^\w+$/.test(last.text));
  const word = isTyping ? last.text : "";
  const from = isTyping ? last.from : place;
  const before = isTyping ? tokens.slice(0, -1) : tokens;
  const opener = before[before.length - 1];
  if (!opener || opener.text === "(" || JOINERS.includes(opener.text.toLowerCase())) return { kind: "attribute", word, from };
  if (isComparison(opener)) return { kind: "value", word, from, attribute: before[before.length - 2]?.text ?? "" };
  const isValue = isComparison(before[before.length - 2]);
  return { kind: isValue || opener.text === ")" ? "joiner" : "operator", word, from };
}

export const joiners = ["and", "or"];
