// Requests of which only the newest counts.

import { useEffect, useState } from "preact/hooks";

export class Newest {
  private running: AbortController | null = null;

  get isRunning(): boolean {
    return this.running !== null;
  }

  /** Aborts the request before. Neither callback is called once another request has begun. */
  start<T>(send: (signal: AbortSignal) => Promise<T>, done: (value: T) => void, failed: (error: unknown) => void): void {
    this.stop();
    const controller = new AbortController();
    this.running = controller;
    const ifNewest = <A>(report: (value: A) => void) => (value: A) => {
      if (this.running !== controller) return;
      this.running = null;
      report(value);
    };
    send(controller.signal).then(ifNewest(done), ifNewest(failed));
  }

  stop(): void {
    this.running?.abort();
    this.running = null;
  }
}

/** Stops when the component is gone. */
export function useNewest(): Newest {
  const [newest] = useState(() => new Newest());
  useEffect(() => () => newest.stop(), [newest]);
  return newest;
}
