export function Query() { return <p class="empty">query</p>; }
