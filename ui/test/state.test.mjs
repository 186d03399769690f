// Unit tests of the page's state: its address, and requests that overtake each other.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./support/load.mjs";

const [hash, newest] = await Promise.all(["state/hash.ts", "state/newest.ts"].map(load));

test("an address is printed as it is parsed", () => {
  for (const path of [["metrics"], ["resources", "instance", "a/b c%?#"], ["resources", "größe", "x"]]) {
    for (const query of ["", "q=a%2Bb+c&m=1&m=2", "expr=rate%28x%5B5m%5D%29+%3E+1&from=2026-01-01T00:00Z", `q=${encodeURIComponent('&"#<|%')}`]) {
      const printed = hash.print({ path, params: new URLSearchParams(query) });
      const parsed = hash.parse(printed);
      assert.deepEqual([parsed.path, parsed.params.toString()], [path, new URLSearchParams(query).toString()], printed);
      assert.equal(hash.print(parsed), printed);
    }
  }
});

/** A request that is answered by hand. */
function request() {
  const own = {};
  own.send = (signal) => {
    own.signal = signal;
    return new Promise((answer, fail) => Object.assign(own, { answer, fail }));
  };
  return own;
}

test("of requests that overtake each other only the newest counts", async () => {
  const seen = [];
  const [done, failed] = [(value) => seen.push(value), (error) => seen.push(error.message)];
  const requests = new newest.Newest();
  const [first, second, third] = [request(), request(), request()];
  requests.start(first.send, done, failed);
  requests.start(second.send, done, failed);
  assert.deepEqual([first.signal.aborted, second.signal.aborted, requests.isRunning], [true, false, true]);
  second.answer("new");
  await new Promise(setImmediate);
  first.answer("old");
  await new Promise(setImmediate);
  assert.deepEqual([seen, requests.isRunning], [["new"], false]);
  requests.start(third.send, done, failed);
  third.fail(new Error("refused"));
  await new Promise(setImmediate);
  assert.deepEqual([seen, requests.isRunning], [["new", "refused"], false]);
  const stopped = request();
  requests.start(stopped.send, done, failed);
  requests.stop();
  stopped.fail(new Error("aborted"));
  await new Promise(setImmediate);
  assert.deepEqual([seen, stopped.signal.aborted, requests.isRunning], [["new", "refused"], true, false]);
});
