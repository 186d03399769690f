//! Who may do what: one function, [`allows`], asked before every handler; the rules are Gnocchi's defaults.

use std::sync::Arc;

/// Who calls, as authentication found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// What a metric's creator is compared with: `user_id:project_id`, or with basic authentication the user's name.
    pub user: String,
    /// Of the caller's token, as are the next two.
    pub user_id: Option<String>,
    /// The project that the token is scoped to.
    pub project_id: Option<String>,
    /// The domain that the token is scoped to, where that is no project.
    pub domain_id: Option<String>,
    /// Names, as Keystone writes them; basic authentication knows `admin` only.
    pub roles: Arc<[String]>,
    pub is_admin: bool,
    pub is_service: bool,
}

/// What is asked for, by the names of Gnocchi's policy file; the last is gnudi's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    GetStatus,
    CreateArchivePolicy,
    GetArchivePolicy,
    UpdateArchivePolicy,
    DeleteArchivePolicy,
    ListArchivePolicy,
    CreateArchivePolicyRule,
    GetArchivePolicyRule,
    UpdateArchivePolicyRule,
    DeleteArchivePolicyRule,
    ListArchivePolicyRule,
    CreateMetric,
    GetMetric,
    DeleteMetric,
    ListMetric,
    SearchMetric,
    PostMeasures,
    GetMeasures,
    CreateResource,
    GetResource,
    UpdateResource,
    DeleteResource,
    DeleteResources,
    ListResource,
    SearchResource,
    CreateResourceType,
    GetResourceType,
    UpdateResourceType,
    DeleteResourceType,
    ListResourceType,
    GetProfile,
}

/// Who passes a rule, besides an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Every authenticated caller.
    Anybody,
    /// A caller with the role `service`.
    Service,
    /// Who created the thing, and members of the creator's project.
    Creator,
    /// Members of the project that owns the metric's resource.
    Owner,
    /// Members of the project that owns the resource.
    ResourceOwner,
}

impl Rule {
    #[cfg(test)]
    const ALL: [Rule; 31] = [
        Rule::GetStatus,
        Rule::CreateArchivePolicy,
        Rule::GetArchivePolicy,
        Rule::UpdateArchivePolicy,
        Rule::DeleteArchivePolicy,
        Rule::ListArchivePolicy,
        Rule::CreateArchivePolicyRule,
        Rule::GetArchivePolicyRule,
        Rule::UpdateArchivePolicyRule,
        Rule::DeleteArchivePolicyRule,
        Rule::ListArchivePolicyRule,
        Rule::CreateMetric,
        Rule::GetMetric,
        Rule::DeleteMetric,
        Rule::ListMetric,
        Rule::SearchMetric,
        Rule::PostMeasures,
        Rule::GetMeasures,
        Rule::CreateResource,
        Rule::GetResource,
        Rule::UpdateResource,
        Rule::DeleteResource,
        Rule::DeleteResources,
        Rule::ListResource,
        Rule::SearchResource,
        Rule::CreateResourceType,
        Rule::GetResourceType,
        Rule::UpdateResourceType,
        Rule::DeleteResourceType,
        Rule::ListResourceType,
        Rule::GetProfile,
    ];

    fn passed_by(self) -> &'static [Role] {
        match self {
            Rule::GetArchivePolicy
            | Rule::ListArchivePolicy
            | Rule::GetArchivePolicyRule
            | Rule::ListArchivePolicyRule
            | Rule::CreateMetric
            | Rule::CreateResource
            | Rule::GetResourceType
            | Rule::ListResourceType => &[Role::Anybody],
            Rule::GetStatus
            | Rule::UpdateArchivePolicy
            | Rule::DeleteArchivePolicy
            | Rule::CreateArchivePolicyRule
            | Rule::UpdateArchivePolicyRule
            | Rule::DeleteArchivePolicyRule
            | Rule::DeleteResourceType
            | Rule::GetProfile => &[],
            Rule::CreateArchivePolicy | Rule::CreateResourceType | Rule::UpdateResourceType => {
                &[Role::Service]
            }
            Rule::DeleteMetric | Rule::DeleteResource | Rule::DeleteResources => &[Role::Creator],
            Rule::ListMetric | Rule::SearchMetric => &[Role::Creator, Role::Owner],
            Rule::PostMeasures | Rule::UpdateResource => &[Role::Service, Role::Creator],
            Rule::GetResource | Rule::ListResource => &[Role::Creator, Role::ResourceOwner],
            Rule::SearchResource => &[Role::Service, Role::Creator, Role::ResourceOwner],
            Rule::GetMetric | Rule::GetMeasures => &[Role::Service, Role::Creator, Role::Owner],
        }
    }
}

/// What a rule is asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target<'a> {
    /// `user_id:project_id`, or the name of a user of basic authentication.
    pub creator: Option<&'a str>,
    /// The resource's own project.
    pub project_id: Option<&'a str>,
    /// The project of the metric's resource.
    pub resource_project_id: Option<&'a str>,
}

/// Whether the caller may do to the target what the rule names.
pub fn allows(rule: Rule, caller: &Caller, target: Target<'_>) -> bool {
    let in_project = |project: Option<&str>| project.is_some() && caller.project_id.as_deref() == project;
    let creator_project =
        || target.creator.map(|creator| creator.split_once(':').map_or("", |(_, project)| project));
    let has = |role: &Role| match role {
        Role::Anybody => true,
        Role::Service => caller.is_service,
        Role::Creator => target.creator == Some(caller.user.as_str()) || in_project(creator_project()),
        Role::Owner => in_project(target.resource_project_id),
        Role::ResourceOwner => in_project(target.project_id),
    };
    caller.is_admin || rule.passed_by().iter().any(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every rule for every kind of caller, on a thing created by `u1:p1`: for a metric its resource belongs to `p2`, for a
    /// resource it itself belongs to `p3`.
    #[test]
    fn rules_are_gnocchis_defaults() {
        let target =
            Target { creator: Some("u1:p1"), project_id: Some("p3"), resource_project_id: Some("p2") };
        let member = |user: &str, project: &str| Caller {
            user: format!("{user}:{project}"),
            project_id: Some(project.to_owned()),
            ..Caller::default()
        };
        let callers = [
            ("admin", Caller { is_admin: true, ..member("a", "pa") }),
            ("service", Caller { is_service: true, ..member("s", "ps") }),
            ("creator", member("u1", "p1")),
            ("same project", member("u2", "p1")),
            ("owner", member("u3", "p2")),
            ("resource owner", member("u5", "p3")),
            ("stranger", member("u4", "p4")),
            ("basic", Caller { user: "u1".to_owned(), ..Caller::default() }),
        ];
        for rule in Rule::ALL {
            let may: Vec<&str> = callers
                .iter()
                .filter(|(_, caller)| allows(rule, caller, target))
                .map(|(name, _)| *name)
                .collect();
            let expected: &[&str] = match rule {
                Rule::GetArchivePolicy
                | Rule::ListArchivePolicy
                | Rule::GetArchivePolicyRule
                | Rule::ListArchivePolicyRule
                | Rule::CreateMetric
                | Rule::CreateResource
                | Rule::GetResourceType
                | Rule::ListResourceType => &[
                    "admin",
                    "service",
                    "creator",
                    "same project",
                    "owner",
                    "resource owner",
                    "stranger",
                    "basic",
                ],
                Rule::GetStatus
                | Rule::UpdateArchivePolicy
                | Rule::DeleteArchivePolicy
                | Rule::CreateArchivePolicyRule
                | Rule::UpdateArchivePolicyRule
                | Rule::DeleteArchivePolicyRule
                | Rule::DeleteResourceType
                | Rule::GetProfile => &["admin"],
                Rule::CreateArchivePolicy | Rule::CreateResourceType | Rule::UpdateResourceType => {
                    &["admin", "service"]
                }
                Rule::DeleteMetric | Rule::DeleteResource | Rule::DeleteResources => {
                    &["admin", "creator", "same project"]
                }
                Rule::ListMetric | Rule::SearchMetric => &["admin", "creator", "same project", "owner"],
                Rule::PostMeasures | Rule::UpdateResource => &["admin", "service", "creator", "same project"],
                Rule::GetResource | Rule::ListResource => {
                    &["admin", "creator", "same project", "resource owner"]
                }
                Rule::SearchResource => &["admin", "service", "creator", "same project", "resource owner"],
                Rule::GetMetric | Rule::GetMeasures => {
                    &["admin", "service", "creator", "same project", "owner"]
                }
            };
            assert_eq!(may, expected, "{rule:?}");
        }
    }

    #[test]
    fn a_name_is_its_creator_only_as_a_whole() {
        let caller = |user: &str| Caller { user: user.to_owned(), ..Caller::default() };
        let target = Target { creator: Some("foobar"), ..Target::default() };
        assert!(allows(Rule::PostMeasures, &caller("foobar"), target));
        assert!(!allows(Rule::PostMeasures, &caller("foobar:"), target));
        assert!(!allows(Rule::PostMeasures, &caller("foo"), target));
        assert!(!allows(Rule::PostMeasures, &caller(""), target));
        assert!(!allows(Rule::PostMeasures, &caller(""), Target::default()));
    }
}
