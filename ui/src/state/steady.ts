// Components that are drawn anew only when something that they are given has changed.

import { Component, type ComponentChild } from "preact";

export function steady<P extends object>(View: (props: P) => ComponentChild) {
  return class Steady extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const names = new Set([...Object.keys(this.props), ...Object.keys(next)]) as Set<keyof P>;
      return [...names].some((name) => name !== "children" && !Object.is(this.props[name], next[name]));
    }

    override render() {
      return View(this.props as P);
    }
  };
}
