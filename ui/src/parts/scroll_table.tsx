// A table that scrolls within its box, by the keyboard too.

import type { ComponentChildren } from "preact";

/** `head` is the cells of the heading, `children` are the rows. */
export function ScrollTable({ label, head, children }: { label: string; head: ComponentChildren; children: ComponentChildren }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead><tr>{head}</tr></thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
