// The display name of a metric's resource.

import { lookUp, nameOf } from "../api/resources";
import { useLoaded } from "../http/loading";
import { linkTo } from "../state/address";

/** The resource, not one of a former id. */
function useOwner(id: string) {
  const { value } = useLoaded(() => lookUp(id), [id]);
  return value?.id === id ? value : null;
}

/** With a link; nothing without an id. */
export const Owner = ({ id }: { id: string | null }) => id && <OwnerLink id={id} />;

function OwnerLink({ id }: { id: string }) {
  const resource = useOwner(id);
  const type = resource?.type ?? "generic";
  return <a class="owner" href={linkTo(["resources", type, id])}>{resource ? nameOf(resource) : id.slice(0, 8)}</a>;
}

/** Without a link, for use inside another one. */
export function OwnerName({ id }: { id: string }) {
  const resource = useOwner(id);
  return <b class="owner">{resource ? nameOf(resource) : id.slice(0, 8)} · </b>;
}
