//! The rules by name: those checked by requests, and those referred to by others.

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident $name:literal $default:ident;)*) => {
        /// The rules checked by requests, by the names of Gnocchi's policy file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $($(#[$doc])* $rule,)*
        }

        impl Rule {
            /// In the order of the variants.
            pub const ALL: [Rule; [$($name),*].len()] = [$(Rule::$rule),*];

            /// The rule's name in a policy file.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Rule::$rule => $name,)*
                }
            }

            const fn default(self) -> &'static str {
                match self {
                    $(Rule::$rule => $default,)*
                }
            }
        }
    };
}

const ANYBODY: &str = "";
const ADMIN: &str = "role:admin";
const SERVICE: &str = "rule:admin_or_service";
const CREATOR: &str = "rule:admin_or_creator";
const SERVICE_OR_CREATOR: &str = "rule:admin_or_service or rule:creator";
const CREATOR_OR_METRIC_OWNER: &str = "rule:admin_or_creator or rule:metric_owner";
const SERVICE_OR_CREATOR_OR_METRIC_OWNER: &str = "rule:admin_or_service or rule:creator or rule:metric_owner";
const CREATOR_OR_RESOURCE_OWNER: &str = "rule:admin_or_creator or rule:resource_owner";
const SERVICE_OR_CREATOR_OR_RESOURCE_OWNER: &str =
    "rule:admin_or_service or rule:creator or rule:resource_owner";

rules! {
    GetStatus "get status" ADMIN;
    CreateArchivePolicy "create archive policy" SERVICE;
    GetArchivePolicy "get archive policy" ANYBODY;
    UpdateArchivePolicy "update archive policy" ADMIN;
    DeleteArchivePolicy "delete archive policy" ADMIN;
    ListArchivePolicy "list archive policy" ANYBODY;
    CreateArchivePolicyRule "create archive policy rule" ADMIN;
    GetArchivePolicyRule "get archive policy rule" ANYBODY;
    UpdateArchivePolicyRule "update archive policy rule" ADMIN;
    DeleteArchivePolicyRule "delete archive policy rule" ADMIN;
    ListArchivePolicyRule "list archive policy rule" ANYBODY;
    CreateMetric "create metric" ANYBODY;
    GetMetric "get metric" SERVICE_OR_CREATOR_OR_METRIC_OWNER;
    DeleteMetric "delete metric" CREATOR;
    ListMetric "list metric" CREATOR_OR_METRIC_OWNER;
    SearchMetric "search metric" CREATOR_OR_METRIC_OWNER;
    PostMeasures "post measures" SERVICE_OR_CREATOR;
    GetMeasures "get measures" SERVICE_OR_CREATOR_OR_METRIC_OWNER;
    CreateResource "create resource" ANYBODY;
    GetResource "get resource" CREATOR_OR_RESOURCE_OWNER;
    UpdateResource "update resource" SERVICE_OR_CREATOR;
    DeleteResource "delete resource" CREATOR;
    DeleteResources "delete resources" CREATOR;
    ListResource "list resource" CREATOR_OR_RESOURCE_OWNER;
    SearchResource "search resource" SERVICE_OR_CREATOR_OR_RESOURCE_OWNER;
    CreateResourceType "create resource type" SERVICE;
    GetResourceType "get resource type" ANYBODY;
    UpdateResourceType "update resource type" SERVICE;
    DeleteResourceType "delete resource type" ADMIN;
    ListResourceType "list resource type" ANYBODY;
    /// gnudi's own: changes a metric's archive policy.
    UpdateMetric "update metric" CREATOR;
    /// gnudi's own: samples the stacks of the process.
    GetProfile "get profile" ADMIN;
    /// gnudi's own, on a resource, as are the next two.
    GetAnnotation "get annotation" SERVICE_OR_CREATOR_OR_RESOURCE_OWNER;
    CreateAnnotation "create annotation" SERVICE_OR_CREATOR_OR_RESOURCE_OWNER;
    /// On an annotation; its creator is its author.
    DeleteAnnotation "delete annotation" CREATOR;
}

/// Rules that others refer to.
const PARTS: [(&str, &str); 6] = [
    ("context_is_admin", ADMIN),
    ("admin_or_creator", "role:admin or user:%(creator)s or project_id:%(created_by_project_id)s"),
    ("admin_or_service", "role:admin or role:service"),
    ("creator", "user:%(creator)s or project_id:%(created_by_project_id)s"),
    ("resource_owner", "project_id:%(project_id)s"),
    ("metric_owner", "project_id:%(resource.project_id)s"),
];

/// All rules by name, with Gnocchi's texts.
pub fn defaults() -> impl Iterator<Item = (&'static str, &'static str)> {
    PARTS.into_iter().chain(Rule::ALL.into_iter().map(|rule| (rule.name(), rule.default())))
}
