// Splits work, so that the browser can draw and handle input in between.

/** How long work may take in a frame; most of its 16 ms the browser needs to show the result. */
const WORK_MS = 4;

let began = 0;

/** Resolves in this frame if it has time left for more work, otherwise in the next one. */
export async function nextPiece(): Promise<void> {
  await nextTask();
  if (performance.now() - began < WORK_MS) return;
  await new Promise(requestAnimationFrame);
  await nextTask();
  began = performance.now();
}

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
