// Loads modules of the page that do not need a browser.

import { build } from "esbuild";

/** As a page with these settings has it, for modules that read them, without a browser. */
export function settle(settings) {
  globalThis.window = globalThis;
  globalThis.document = { querySelector: () => ({ getAttribute: () => JSON.stringify(settings) }) };
}

let loaded = 0;

/** The exports of the module `ui/src/<path>`, with a state of their own. */
export async function load(path) {
  const { outputFiles } = await build({
    entryPoints: [new URL(`../../src/${path}`, import.meta.url).pathname], bundle: true, write: false, format: "esm", target: "node18", logLevel: "error",
  });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}#${(loaded += 1)}`);
}
