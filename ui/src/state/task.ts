// Splits work, so that the browser can draw and handle input in between.

/** Resolves in the browser's next task, without the delay of timers. */
export function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
