// The language of operations, as far as completion and error marking need it.

import type { Mistake } from "./problem";

export const ARITHMETIC = ["+", "-", "*", "/", "%", "**", "==", "!=", "<", "<=", ">", ">=", "and", "or"];
export const FUNCTIONS = ["abs", "neg", "sign", "cos", "sin", "tan", "floor", "ceil", "absolute", "negative", "clip", "clip_min", "clip_max", "max", "rateofchange", "rateofchangesec"];
export const FORMS = ["metric", "aggregate", "rolling", "resample"];
export const OPERATIONS = [...FORMS, ...FUNCTIONS, ...ARITHMETIC];
export const AGGREGATES = ["mean", "median", "std", "min", "max", "sum", "var", "count"];

const NAMES = new Set([...OPERATIONS, "eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "mod", "div", "pow", "multiply", "divide", "subtract", "≠", "≤", "≥"]);

export interface Token {
  kind: "(" | ")" | "text" | "word";
  text: string;
  from: number;
  to: number;
}

export function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  const pattern = /\s+|[()]|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\s()"']+/g;
  for (const match of text.matchAll(pattern)) {
    const word = match[0];
    if (/^\s/.test(word)) continue;
    const kind = word === "(" || word === ")" ? word : /^["']/.test(word) ? "text" : "word";
    tokens.push({ kind, text: word, from: match.index, to: match.index + word.length });
  }
  return tokens;
}

/** Finds certain errors; the server reports the rest. */
export function check(text: string): Mistake[] {
  const tokens = tokensOf(text);
  const mistakes: Mistake[] = [];
  const open: Token[] = [];
  tokens.forEach((token, at) => {
    const before = tokens[at - 1];
    if (token.kind === "(") open.push(token);
    if (token.kind === ")" && !open.pop()) mistakes.push({ message: "Nothing is open here", from: token.from, to: token.to });
    if (token.kind === "text" && (token.text.length < 2 || !token.text.endsWith(token.text[0] as string))) {
      mistakes.push({ message: "The quotation mark is not closed", from: token.from, to: token.to });
    }
    // A list of metrics has nested parentheses: (metric (ID mean) (ID mean)).
    const isHead = before?.kind === "(" && token.kind === "word" && !isInMetric(tokens, at);
    if (isHead && !NAMES.has(token.text)) mistakes.push({ message: `There is no operation “${token.text}”`, from: token.from, to: token.to });
  });
  for (const token of open) mistakes.push({ message: "This is not closed", from: token.from, to: token.to });
  return mistakes;
}

/** The forms around a position, innermost last: their heads, and the number of operands before the position. */
function around(tokens: Token[]): { head: string; operands: number }[] {
  const stack: { head: string; operands: number }[] = [];
  tokens.forEach((token, at) => {
    const top = stack[stack.length - 1];
    if (token.kind === "(") {
      if (top) top.operands += 1;
      stack.push({ head: "", operands: -1 });
    } else if (token.kind === ")") {
      stack.pop();
    } else if (top) {
      if (tokens[at - 1]?.kind === "(") top.head = token.text;
      top.operands += 1;
    }
  });
  return stack;
}

const isInMetric = (tokens: Token[], at: number): boolean => around(tokens.slice(0, at - 1)).pop()?.head === "metric";

export interface Wanted {
  kind: "operation" | "metric" | "method" | "aggregate" | "nothing";
  /** The incomplete word, and where it begins. */
  word: string;
  from: number;
}

/** What kind of word may stand at the position. */
export function wantedAt(text: string, place: number): Wanted {
  const tokens = tokensOf(text.slice(0, place));
  const last = tokens[tokens.length - 1];
  const isTyping = last !== undefined && last.to === place && last.kind === "word";
  const word = isTyping ? last.text : "";
  const from = isTyping ? last.from : place;
  const before = isTyping ? tokens.slice(0, -1) : tokens;
  const opener = before[before.length - 1];
  const stack = around(before);
  const top = stack[stack.length - 1];
  const outer = stack[stack.length - 2];
  if (!top) return { kind: before.length === 0 ? "operation" : "nothing", word, from };
  if (opener?.kind === "(") return { kind: outer?.head === "metric" ? "metric" : "operation", word, from };
  if (top.head === "metric") return { kind: top.operands === 0 ? "metric" : top.operands === 1 ? "method" : "nothing", word, from };
  if (outer?.head === "metric") return { kind: top.operands === 0 ? "method" : "nothing", word, from };
  if (["aggregate", "rolling", "resample"].includes(top.head) && top.operands === 0) return { kind: "aggregate", word, from };
  return { kind: "nothing", word, from };
}
