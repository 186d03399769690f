// Modules of the page that know nothing of the browser, for tests without one.

import { build } from "esbuild";

/** What the module `ui/src/<path>` exports. */
export async function load(path) {
  const { outputFiles } = await build({
    entryPoints: [new URL(`../../src/${path}`, import.meta.url).pathname], bundle: true, write: false, format: "esm", target: "node18", logLevel: "error",
  });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}
