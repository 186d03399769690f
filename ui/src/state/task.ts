// Work in parts, so that the browser can draw and answer between them.

/** The next task of the browser's, without the delay that timers have. */
export function aTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
