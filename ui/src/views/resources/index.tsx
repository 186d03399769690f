// Resources: a list by type, or one with its attributes, revisions and metrics.

import { useAddress } from "../../state/address";
import { ResourceList } from "./list";
import { OneResource } from "./one";

export function Resources() {
  const { path } = useAddress();
  const [, type = "generic", id] = path;
  return id ? <OneResource key={`${type} ${id}`} type={type} id={id} /> : <ResourceList type={type} />;
}
