// Builds the page into crates/page/dist: two scripts, a style sheet and an icon, each with its compressed
// forms. Names contain a hash of the content, so that browsers can cache files forever.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const dist = process.argv[2] ?? join(here, "../crates/page/dist");

const bundled = await build({
  absWorkingDir: here,
  entryPoints: { begin: "src/begin.ts", app: "src/app.tsx", style: "src/style/main.css" },
  bundle: true,
  minify: true,
  write: false,
  outdir: "out",
  format: "esm",
  target: ["es2020"],
  jsx: "automatic",
  jsxImportSource: "preact",
  // uPlot creates a formatter when it is loaded, which takes 10 ms. Nothing uses it: axes have their own labels.
  define: { "Intl.NumberFormat": "Object" },
  legalComments: "none",
  logLevel: "warning",
});

const contents = new Map(bundled.outputFiles.map((file) => [basename(file.path), Buffer.from(file.contents)]));
/** The licences of bundled packages. */
const licences = ["preact", "uplot", "@uwdata/flechette"].map((name) => `${name}\n\n${readFileSync(join(here, "node_modules", name, "LICENSE"), "utf8").trim()}\n`);
contents.set("licences.txt", Buffer.from(licences.join("\n\n")));
contents.set("icon.svg", readFileSync(join(here, "icon.svg")));

mkdirSync(dist, { recursive: true });
for (const old of readdirSync(dist)) if (old !== ".gitignore") rmSync(join(dist, old));

const names = {};
let total = 0;
for (const [name, content] of contents) {
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 12);
  const [stem, extension] = name.split(".");
  const full = `${stem}-${hash}.${extension}`;
  names[name] = full;
  const gzip = gzipSync(content, { level: 9 });
  const brotli = brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } });
  writeFileSync(join(dist, full), content);
  writeFileSync(join(dist, `${full}.gz`), gzip);
  writeFileSync(join(dist, `${full}.br`), brotli);
  total += gzip.length;
}
const index = readFileSync(join(here, "index.html"), "utf8")
  .replace("@LICENCES@", names["licences.txt"])
  .replace("@ICON@", names["icon.svg"])
  .replace("@STYLE@", names["style.css"])
  .replace("@BEGIN@", names["begin.js"])
  .replace("@SCRIPT@", names["app.js"]);
writeFileSync(join(dist, "index.html"), index);
total += gzipSync(index).length;
console.log(`the page: ${(total / 1000).toFixed(1)} kB gzip`);
