// An observable value, for state that is not in the address.

import { useEffect, useState } from "preact/hooks";

export class Cell<T> {
  private readonly followers = new Set<(value: T) => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(value: T): void {
    if (Object.is(value, this.current)) return;
    this.current = value;
    for (const follower of [...this.followers]) follower(value);
  }

  /** Calls back with each new value; returns a function that unsubscribes. */
  follow(follower: (value: T) => void): () => void {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }
}

/** The cell's value; re-renders the component when it changes. */
export function useCell<T>(cell: Cell<T>): T {
  const [value, setValue] = useState(() => cell.value);
  useEffect(() => {
    setValue(() => cell.value);
    return cell.follow((next) => setValue(() => next));
  }, [cell]);
  return value;
}
