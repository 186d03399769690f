// Components that re-render only when their props change.

import { Component, type ComponentChild } from "preact";

export function memo<P extends object>(View: (props: P) => ComponentChild) {
  return class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const names = new Set([...Object.keys(this.props), ...Object.keys(next)]) as Set<keyof P>;
      return [...names].some((name) => name !== "children" && !Object.is(this.props[name], next[name]));
    }

    override render() {
      return View(this.props as P);
    }
  };
}
