// A server and a browser for the tests of a file.

import { after } from "node:test";
import { launch } from "./browser.mjs";
import { Server } from "./server.mjs";

/** Starts both, the server at the port `GNUDI_PORT`; they end after the file's tests. `options`: the server's. `fill` makes what is in the server: the `cloud`. */
export async function start(options, fill) {
  const [server, browser] = await Promise.all([new Server({ port: process.env.GNUDI_PORT, ...options }).start(), launch()]);
  const end = async () => {
    await browser.close();
    await server.remove();
  };
  after(end);
  try {
    return { server, browser, cloud: await fill(server) };
  } catch (error) {
    await end();
    throw error;
  }
}
