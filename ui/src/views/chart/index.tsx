export function Chart() { return <p class="empty">chart</p>; }
