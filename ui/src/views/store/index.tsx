export function Store() { return <p class="empty">store</p>; }
