// The display name of a metric's resource.

import { lookUp, nameOf } from "../api/resources";
import { useLoaded } from "../http/loading";
import { linkTo } from "../state/address";

/** The resource, which cannot be the former one's; the id is shown until it is there. */
function useOwner(id: string | null) {
  const { value } = useLoaded(async () => (id ? lookUp(id) : null), [id]);
  return value?.id === id ? value : null;
}

/** With a link. */
export function Owner({ id }: { id: string | null }) {
  const resource = useOwner(id);
  if (!id) return null;
  const type = resource?.type ?? "generic";
  return <a class="owner" href={linkTo(["resources", type, id])}>{resource ? nameOf(resource) : id.slice(0, 8)}</a>;
}

/** Without a link, for use inside another one. */
export function OwnerName({ id }: { id: string }) {
  const resource = useOwner(id);
  return <b class="owner">{resource ? nameOf(resource) : id.slice(0, 8)} · </b>;
}
