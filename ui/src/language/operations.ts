// The language of operations, as far as completion and error marking need it.

import type { Mistake } from "./problem";
import * as tokens from "./tokens";

const ARITHMETIC = ["+", "-", "*", "/", "%", "**", "==", "!=", "<", "<=", ">", ">=", "and", "or"];
export const FUNCTIONS = ["abs", "neg", "sign", "cos", "sin", "tan", "floor", "ceil", "absolute", "negative", "clip", "clip_min", "clip_max", "max", "rateofchange", "rateofchangesec"];
export const FORMS = ["metric", "aggregate", "rolling", "resample"];
export const OPERATIONS = [...FORMS, ...FUNCTIONS, ...ARITHMETIC];
export const AGGREGATES = ["mean", "median", "std", "min", "max", "sum", "var", "count"];

const NAMES = new Set([...OPERATIONS, "eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "mod", "div", "pow", "multiply", "divide", "subtract", "≠", "≤", "≥"]);

const PATTERN = /\s+|[()]|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\s()"']+/g;

type Token = tokens.Token<"(" | ")" | "text" | "word">;

export const tokensOf = (text: string): Token[] =>
  tokens.tokensOf(text, PATTERN, (word) => (word === "(" || word === ")" ? word : /^["']/.test(word) ? "text" : "word"));

/** A metric's name as an operand, which has no quotes: a wildcard stands for what cannot be written. */
export const nameOf = (name: string): string => name.replace(/[*?[]/g, "[$&]").replace(/[\s()"']/g, "?");

/** Finds certain errors; the server reports the rest. */
export function check(text: string): Mistake[] {
  const found = tokensOf(text);
  return tokens.check(found, [["("], [")"]], (token, at) => {
    // A list of metrics has nested parentheses: (metric (ID mean) (ID mean)).
    const isHead = found[at - 1]?.kind === "(" && token.kind === "word" && !isInMetric(found, at);
    return isHead && !NAMES.has(token.text) ? `There is no operation “${token.text}”` : undefined;
  });
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
  const { word, from, before } = tokens.typedAt(tokensOf(text.slice(0, place)), place, ({ kind }) => kind === "word");
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
